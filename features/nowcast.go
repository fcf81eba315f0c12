package features

import (
	"math"
	"slices"
)

// Estimate is a nowcast: the expected settled value of a minute that is still being reported, in the dimension's unit.
//
// Records usually come when a request ends. So the newest minutes miss the running requests, and rates seem to fall.
// The reported share of a minute at age d is estimated from the reporting triangle by reverse-time hazards (see
// [hazards]). The rest is predicted from it and from the recent level (see [reporting]). If no record ever came late,
// the estimate is exactly the count.
//
// Records after Config.Revise are refused as late and are not predicted. If requests run longer than that, the settled
// count and its nowcast are too low.
type Estimate struct {
	Mean    float64 `cbor:"1,keyasint"`
	Counted float64 `cbor:"2,keyasint"` // reported by now
}

// Complete is the estimate of a complete value.
func Complete(value float64) Estimate { return Estimate{Mean: value, Counted: value} }

// Incomplete reports whether something is missing; false when the value is unknown.
func (e Estimate) Incomplete() bool { return e.Mean > e.Counted || e.Mean < e.Counted }

// Plus is the estimate of the sum of two values.
func (e Estimate) Plus(o Estimate) Estimate {
	return Estimate{Mean: e.Mean + o.Mean, Counted: e.Counted + o.Counted}
}

// Expected is the nowcast of each of Dimensions, NaN when unknown. Dimensions without a nowcast of their own use the
// reported share of requests.
func (w *Window) Expected() []float64 {
	out, rest := make([]float64, len(Dimensions)), 1.0
	for d := range Dimensions {
		now, ok := Dimensions[d].Now(w)
		if out[d] = now.Mean; !ok || !w.Covered {
			out[d] = math.NaN()
		}
		if d == 0 && w.Nowcast != nil { // requests
			rest = math.NaN()
			if counted, _ := Dimensions[d].Value(w); counted > 0 {
				rest = now.Mean / counted
			}
		}
		if d >= forecastDimensions {
			out[d] *= rest
		}
	}
	return out
}

// Now is the nowcast of the dimension of a window; ok is false when it is unknown. For a settled window, and for
// dimensions that are not forecast, it is the Value.
func (d *Dimension) Now(w *Window) (e Estimate, ok bool) {
	if i := ForecastIndex(d.Name); i >= 0 && w.Nowcast != nil {
		return w.Nowcast[i], !math.IsNaN(w.Nowcast[i].Mean)
	}
	value, ok := d.Value(w)
	return Complete(value), ok
}

// nowcasting is the scratch space of the pass over one class, reused for the next one.
type nowcasting struct {
	values  [][forecastDimensions]float64 // by age
	shares  []float64                     // reported, by age
	nothing Window                        // for minutes without records
}

// nowcast updates the delays of all classes for the minute that closes, and estimates all open minutes. Increments
// after a minute without telemetry are a backlog, and nothing is learned from them.
func (a *Aggregator) nowcast() {
	if a.Revise == 0 {
		return
	}
	for _, p := range a.pools {
		if !a.covered(p, a.Open) {
			p.Lag.Gap = a.Open
		}
		if p.Lag.Late = p.Lag.Late || a.amended(p); !p.Lag.Late {
			continue
		}
		records := 0.0
		for _, c := range p.classes {
			if c.Nowcasts == nil && len(c.Buckets) > 0 {
				c.Nowcasts = newNowcasts(a.Revise, a.Open)
			}
			if c.Nowcasts != nil {
				records += float64(c.Nowcasts.Records)
			}
		}
		for i := range p.Lag.Rows {
			p.Lag.Rows[i].fade(keep(records))
		}
		for _, c := range p.classes {
			if c.Nowcasts != nil {
				a.nowcastClass(p, c)
			}
		}
	}
}

// amended reports whether a minute of a pool has changed since its first count.
func (a *Aggregator) amended(p *pool) bool {
	for _, c := range p.classes {
		if slices.ContainsFunc(c.Buckets, func(x dated[bucket]) bool { return x.Minute < a.Open && x.Of.Dirty }) {
			return true
		}
	}
	return false
}

func (a *Aggregator) nowcastClass(p *pool, c *class) {
	d, oldest := c.Nowcasts, int(a.Revise)
	records, settled := a.read(p, c, &a.nowcasting)
	if p.teaches(c, a.oldest()) {
		d.count(settled)
	}
	before, incomplete := len(d.Estimates), 0
	d.Estimates = grown(d.Estimates, oldest+1)
	for row := range d.Rows {
		incomplete = max(incomplete, a.nowcastRow(p, c, row, records))
	}
	d.Estimates = d.Estimates[:incomplete]
	d.Moved = max(before+1, incomplete) // a minute is one older than at the last Close
}

// nowcastRow learns the increments of one dimension of a class, and estimates open minutes. It returns the age of the
// oldest one that is incomplete, plus one.
func (a *Aggregator) nowcastRow(p *pool, c *class, row int, records float64) (incomplete int) {
	n, d, r, oldest := &a.nowcasting, c.Nowcasts, &c.Nowcasts.Rows[row], int(a.Revise)
	lag := p.Lag.Rows[row]
	value := func(age int) float64 { return n.values[age][row] }
	sum, most := 0.0, 0.0
	if r.Exposure > 0 {
		most = float64(r.Level / r.Exposure)
	}
	for age := range oldest + 1 {
		if v := value(age); !math.IsNaN(v) {
			sum, most = sum+v, max(most, v)
		}
	}
	r.weigh(sum, records)
	quantum := r.quantum()
	kept := keep(float64(d.Records))
	r.Hazards.fade(kept)
	r.Misfit *= kept
	r.Expected *= kept
	for age := 1; age <= oldest; age++ {
		m := a.Open - int64(age)
		x := float64(float32(value(age)) - d.Last[age-1][row])
		if !p.teaches(c, m) || a.censored(p, m) != p.Coverage.at(m).Censored || math.IsNaN(x) {
			continue // also if the minute became censored, or no longer is: its values then mean something else
		}
		r.learn(age, x, value(age))
		lag.learn(age, x, value(age))
	}
	r.Hazards.shares(n.shares, lag, quantum)
	level, exposure := float64(r.Level), float64(r.Exposure)
	for age := oldest; age >= 0; age-- {
		counted := value(age)
		e := r.estimate(counted, n.shares[age], level/exposure, quantum)
		e.Mean = min(e.Mean, counted+maxMissing*most) // NaN stays
		d.Estimates[age][row] = e
		d.Last[age][row] = float32(counted)
		if math.Abs(e.Mean-counted) > missingSteps*quantum {
			incomplete = max(incomplete, age+1)
		}
		if !math.IsNaN(counted) {
			level, exposure = levelFade*level+counted, levelFade*exposure+n.shares[age]
		}
	}
	if y := value(oldest); !math.IsNaN(y) {
		r.settle(y)
	}
	return incomplete
}

// teaches reports whether the increments of a minute since the last Close show usual delays.
func (p *pool) teaches(c *class, m int64) bool { return m > p.Lag.Gap && m >= c.Nowcasts.Since }

// read reads the values of the open minutes of a class. A usually reported value is zero until reported. It returns the
// number of records of all, and of the minute that settles.
func (a *Aggregator) read(p *pool, c *class, n *nowcasting) (records, settled float64) {
	ages := int(a.Revise) + 1
	n.values, n.shares = grown(n.values, ages), grown(n.shares, ages)
	for age := range ages {
		m := a.Open - int64(age)
		w := &n.nothing
		if at := c.Buckets.find(m); at != nil {
			w = &at.Window
		}
		records, settled = records+w.Records, w.Records // the last one settles
		covered, censored := a.covered(p, m), a.censored(p, m)
		for row := range Forecast {
			v := math.NaN()
			if d := &Forecast[row]; covered && (w.Known|c.Reports)&d.reports != 0 {
				v = d.rate(w, censored)
			}
			n.values[age][row] = v
		}
	}
	return records, settled
}

func grown[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// nowcasts are the nowcasts of a class: the reporting of each of Forecast, and the open minutes. A class has them
// once records of its pool came late and it has traffic. With a revise span of ten minutes they take about 1 KiB.
type nowcasts struct {
	Since   int64                         `cbor:"1,keyasint"` // the first minute that was observed from its first count
	Records float32                       `cbor:"2,keyasint"` // records per minute, averaged over half an hour
	Settled float32                       `cbor:"3,keyasint"` // minutes in that average
	Rows    [forecastDimensions]reporting `cbor:"4,keyasint"`

	// Of the minutes that were open at the last Close, by age:
	Last [][forecastDimensions]float32 `cbor:"5,keyasint"` // NaN when unknown
	// Estimates of the last Close, by age, up to the oldest minute that was incomplete.
	Estimates [][forecastDimensions]Estimate `cbor:"8,keyasint,omitempty"`
	// Moved is from which age on no estimate has changed since the Close before.
	Moved int `cbor:"9,keyasint"`
}

const (
	recordsMinutes = 30 // span of the average nowcasts.Records
	// missingSteps is how much of one request must be missing from a minute for a nowcast.
	missingSteps = 0.01
	// maxMissing bounds what is taken for missing from a minute, in the largest of the open minutes and the settled
	// level. When a producer sends a backlog of some minutes at once, the delays of all ages are long, and their product
	// leaves nothing of the share that is reported.
	maxMissing = 4
)

func newNowcasts(revise, since int64) *nowcasts {
	d := &nowcasts{Since: since, Last: make([][forecastDimensions]float32, revise+1)}
	for i := range d.Rows {
		d.Rows[i].Hazards = make(hazards, revise)
	}
	return d
}

// count adds the records of a minute that settles.
func (d *nowcasts) count(records float64) {
	d.Settled = min(d.Settled+1, recordsMinutes)
	d.Records += (float32(records) - d.Records) / d.Settled
}

// of returns the nowcasts of a minute that is age minutes old, nil when it is complete.
func (d *nowcasts) of(age int64) []Estimate {
	if d == nil || age >= int64(len(d.Estimates)) {
		return nil
	}
	return d.Estimates[age][:]
}

// moved reports whether the nowcast of an open minute may have changed.
func (d *nowcasts) moved(age int64) bool { return d != nil && age < int64(d.Moved) }
