package features

import (
	"math"
	"slices"
)

// nowcasts are those of a class: the reporting of each row of nowcasted, and the open minutes. A class has them once
// records of its pool came late and it has traffic; before that they cost nothing. With a revise span of ten minutes
// they are about 3 KiB.
type nowcasts struct {
	Since   int64       `cbor:"1,keyasint"` // the first minute that was followed from its first count on
	Records float32     `cbor:"2,keyasint"` // a minute, over half an hour
	Settled float32     `cbor:"3,keyasint"` // minutes that Records has seen, up to that
	Rows    []reporting `cbor:"4,keyasint"`

	// Of the open minutes, by minute modulo their number:
	Last   []float32   `cbor:"5,keyasint"` // the value at the last Close, by row; NaN when it was not known
	Issued []issuedNow `cbor:"6,keyasint"` // by row and scored age
	Open   []byte      `cbor:"7,keyasint"` // bit 0: something was missing at the last Close; bit 1: at the one before

	block int // where in Aggregator.estimates the nowcasts of this Close begin, by age and row
	ages  int // how many ages there are from there
}

// issuedNow is a nowcast that waits for its minute to settle.
type issuedNow struct {
	Mean float32 `cbor:"1,keyasint"`
	SD   float32 `cbor:"2,keyasint"`
	Few  bool    `cbor:"3,keyasint"` // see misses
}

const (
	recordsMinutes = 30
	// missingSteps is the part of one request that must be missing from a minute for it to have a nowcast.
	missingSteps = 0.01
)

func newNowcasts(revise, since int64) *nowcasts {
	n := int(revise) + 1
	d := &nowcasts{
		Since: since, Rows: make([]reporting, len(nowcasted)), Last: make([]float32, n*len(nowcasted)),
		Issued: make([]issuedNow, n*len(nowcasted)*scoredAges), Open: make([]byte, n),
	}
	for i := range d.Rows {
		d.Rows[i] = newReporting(int(revise))
	}
	return d
}

// fits says whether a restored state has the shape for this revise span.
func (d *nowcasts) fits(revise int64) bool {
	n := int(revise) + 1
	ok := len(d.Rows) == len(nowcasted) && len(d.Last) == n*len(nowcasted) &&
		len(d.Issued) == n*len(nowcasted)*scoredAges && len(d.Open) == n
	for i := range d.Rows {
		ok = ok && d.Rows[i].Hazards.fits(revise)
	}
	return ok
}

func (h *hazards) fits(revise int64) bool {
	return len(h.Late) == int(revise) && len(h.Seen) == int(revise)
}

func (d *nowcasts) clone() *nowcasts {
	if d == nil {
		return nil
	}
	c := *d
	c.Rows = slices.Clone(d.Rows)
	for i := range c.Rows {
		c.Rows[i].Hazards = c.Rows[i].Hazards.clone()
	}
	c.Last, c.Issued, c.Open = slices.Clone(d.Last), slices.Clone(d.Issued), slices.Clone(d.Open)
	c.block, c.ages = 0, 0
	return &c
}

// lag is what a pool knows of its reporting delay, to lend to classes that are young.
type lag struct {
	Late bool      `cbor:"1,keyasint"` // records have come after the first count of their minute
	Gap  int64     `cbor:"2,keyasint"` // the newest minute at whose end telemetry was not alive
	Rows []hazards `cbor:"3,keyasint"`
}

func newLag(revise int64) lag {
	l := lag{Gap: math.MinInt64, Rows: make([]hazards, len(nowcasted))}
	for i := range l.Rows {
		l.Rows[i] = newHazards(int(revise))
	}
	return l
}

func (l *lag) clone() lag {
	c := lag{Late: l.Late, Gap: l.Gap, Rows: slices.Clone(l.Rows)}
	for i := range c.Rows {
		c.Rows[i] = c.Rows[i].clone()
	}
	return c
}

func (l *lag) fits(revise int64) bool {
	ok := len(l.Rows) == len(nowcasted)
	for i := range l.Rows {
		ok = ok && l.Rows[i].fits(revise)
	}
	return ok
}

// nowcasting is the room that the pass over one class works in, kept for the next one.
type nowcasting struct {
	values  []float64 // by age and row
	records []float64 // by age
	shares  []share   // by age
	nothing Window    // stands in for minutes in which nothing came
}

// nowcast brings the delays of all classes up to date with the minute that is about to close, and estimates all open
// minutes. Increments that follow a minute in which telemetry was not alive are a backlog, and teach nothing.
func (a *Aggregator) nowcast() {
	a.estimates = a.estimates[:0]
	if a.revise == 0 {
		return
	}
	for _, p := range a.pools {
		if !a.covered(p, a.open) {
			p.lag.Gap = a.open
		}
		if p.lag.Late = p.lag.Late || a.amended(p); !p.lag.Late {
			continue
		}
		records := 0.0
		for _, c := range p.classes {
			if c.nowcasts != nil {
				records += float64(c.nowcasts.Records)
			}
		}
		for i := range p.lag.Rows {
			p.lag.Rows[i].fade(keep(records))
		}
		for _, c := range p.classes {
			if c.nowcasts == nil && c.open > 0 {
				c.nowcasts = newNowcasts(a.revise, a.open)
			}
			if c.nowcasts != nil {
				a.nowcastClass(p, c)
			}
		}
	}
}

// amended says whether a minute of a pool has changed after its first count.
func (a *Aggregator) amended(p *pool) bool {
	for _, c := range p.classes {
		for m := a.oldest(); c.open > 0 && m < a.open; m++ {
			if at := a.find(c, m); at != nil && at.dirty {
				return true
			}
		}
	}
	return false
}

func (a *Aggregator) nowcastClass(p *pool, c *class) {
	n, d := &a.nowcasting, c.nowcasts
	a.read(p, c, n)
	oldest := int(a.revise)
	if p.teaches(c, a.oldest()) {
		d.count(n.records[oldest])
	}
	records := 0.0
	for _, r := range n.records {
		records += r
	}
	for i := range d.Open {
		d.Open[i] <<= 1
	}
	d.Open[d.slot(a.open)] = 0
	d.block, d.ages = len(a.estimates), 0
	a.estimates = slices.Grow(a.estimates, (oldest+1)*len(d.Rows))[:d.block+(oldest+1)*len(d.Rows)]
	for row := range d.Rows {
		a.nowcastRow(p, c, row, records)
	}
	for age := oldest; age >= 0 && d.ages == 0; age-- {
		if d.Open[d.slot(a.open-int64(age))]&1 != 0 {
			d.ages = age + 1
		}
	}
	a.estimates = a.estimates[:d.block+d.ages*len(d.Rows)]
}

// nowcastRow learns from the increments of one dimension of a class, scores the minute that settles, and estimates the
// open ones.
func (a *Aggregator) nowcastRow(p *pool, c *class, row int, records float64) {
	n, d, r, oldest := &a.nowcasting, c.nowcasts, &c.nowcasts.Rows[row], int(a.revise)
	value := func(age int) float64 { return n.values[age*len(d.Rows)+row] }
	sum := 0.0
	for age := range oldest + 1 {
		if v := value(age); !math.IsNaN(v) {
			sum += v
		}
	}
	quantum := r.quantum(sum, records)
	r.fade(keep(float64(d.Records)))
	for age := 1; age <= oldest; age++ {
		m := a.open - int64(age)
		x := float64(float32(value(age)) - d.Last[d.slot(m)*len(d.Rows)+row])
		if !p.teaches(c, m) || a.censored(p, m) != p.coverage[a.slot(m)].censored || math.IsNaN(x) {
			continue // or its values mean something else since
		}
		r.learn(age, x, value(age))
		p.lag.Rows[row].learn(age, x, value(age))
	}
	if m := a.oldest(); p.teaches(c, m) {
		d.score(row, m, value(oldest))
	}

	r.Hazards.shares(n.shares, &p.lag.Rows[row], quantum)
	level, exposure := float64(r.Level), float64(r.Exposure)
	for age := oldest; age >= 0; age-- {
		m, counted := a.open-int64(age), value(age)
		e, few := r.estimate(age, counted, n.shares[age], level/exposure, quantum)
		a.estimates[d.block+age*len(d.Rows)+row] = e
		d.issue(row, m, age, &e, few)
		if math.Abs(e.Mean-counted) > missingSteps*quantum {
			d.Open[d.slot(m)] |= 1
		}
		if !math.IsNaN(counted) {
			level, exposure = levelFade*level+counted, levelFade*exposure+n.shares[age].reported
		}
	}
	if y := value(oldest); !math.IsNaN(y) {
		r.settle(y)
	}
}

// teaches says whether what came for a minute since the last Close tells of the usual delays.
func (p *pool) teaches(c *class, m int64) bool { return m > p.lag.Gap && m >= c.nowcasts.Since }

// read takes the values of the open minutes of a class. What the class usually reports and has not yet is zero so far.
func (a *Aggregator) read(p *pool, c *class, n *nowcasting) {
	ages := int(a.revise) + 1
	n.values, n.records, n.shares = grown(n.values, ages*len(nowcasted)), grown(n.records, ages), grown(n.shares, ages)
	for age := range ages {
		m := a.open - int64(age)
		w := &n.nothing
		if at := a.find(c, m); at != nil {
			w = &at.Window
		}
		records := w.Records
		w.Records, w.Covered, w.Censored, w.Reports = 0, a.covered(p, m), a.censored(p, m), c.reports
		for row, i := range nowcasted {
			v, ok := Dimensions[i].Value(w)
			if !ok {
				v = math.NaN()
			}
			n.values[age*len(nowcasted)+row] = v
		}
		w.Records, w.Covered, w.Censored, w.Reports = records, false, false, 0
		n.records[age] = records
	}
}

func grown[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// count takes the records of a minute that settles.
func (d *nowcasts) count(records float64) {
	d.Settled = min(d.Settled+1, recordsMinutes)
	d.Records += (float32(records) - d.Records) / d.Settled
}

// slot is where an open minute lies in the rings.
func (d *nowcasts) slot(minute int64) int {
	n := int64(len(d.Open))
	return int(((minute % n) + n) % n)
}

// issue keeps a nowcast to be scored, and the count that the next increment is measured from.
func (d *nowcasts) issue(row int, m int64, age int, e *Estimate, few bool) {
	i := d.slot(m)*len(d.Rows) + row
	d.Last[i] = float32(e.Counted)
	if age < scoredAges {
		d.Issued[i*scoredAges+age] = issuedNow{float32(e.Mean), float32(e.SD), few}
	}
}

// score compares the nowcasts of a minute with what it came to.
func (d *nowcasts) score(row int, m int64, y float64) {
	i := d.slot(m)*len(d.Rows) + row
	for age, was := range d.Issued[i*scoredAges : (i+1)*scoredAges] {
		if z := (y - float64(was.Mean)) / float64(was.SD); was.SD > 0 && !math.IsNaN(z) && was.Mean >= scoredFrom*d.Rows[row].Size {
			d.Rows[row].Errors[age].score(z, was.Few)
		}
	}
}

// of are the nowcasts of a minute, nil when nothing is missing from it.
func (d *nowcasts) of(a *Aggregator, m int64) []Estimate {
	if d == nil {
		return nil
	}
	age := int(a.open - m)
	if age >= d.ages {
		return nil
	}
	i := d.block + age*len(d.Rows)
	return a.estimates[i : i+len(d.Rows) : i+len(d.Rows)]
}

// moved says whether the nowcast of an open minute may have changed.
func (d *nowcasts) moved(m int64) bool { return d != nil && d.Open[d.slot(m)]&3 != 0 }
