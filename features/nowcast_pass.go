package features

import (
	"math"
	"slices"
)

// nowcasting is the scratch space of the pass over one class, reused for the next one.
type nowcasting struct {
	values    []float64  // by age and row
	records   []float64  // by age
	shares    []share    // by age
	priorFits []priorFit // of one row, by age
	priors    []prior    // to the classes of the pool, by row and age, from 1
	nothing   Window     // for minutes without records
	copied    Window     // copy of a bucket's window
}

// nowcast updates the delays of all classes for the minute that closes, and estimates all open minutes. Increments
// after a minute without telemetry are a backlog, and nothing is learned from them.
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
		a.fitPriors(p)
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

// fitPriors computes the priors of a pool from the delays of its classes. O(classes × rows × ages).
func (a *Aggregator) fitPriors(p *pool) {
	n, ages := &a.nowcasting, int(a.revise)
	n.priors = n.priors[:0]
	for row := range nowcasted {
		n.priorFits = grown(n.priorFits, ages)
		clear(n.priorFits)
		for _, c := range p.classes {
			if c.nowcasts == nil {
				continue
			}
			r := &c.nowcasts.Rows[row]
			if quantum := r.quantum(); quantum > 0 {
				for age := 1; age <= ages; age++ {
					n.priorFits[age-1].add(r.Hazards.at(age), float64(r.Hazards.Seen[age-1])/quantum)
				}
			}
		}
		for age := 1; age <= ages; age++ {
			n.priors = append(n.priors, n.priorFits[age-1].prior(p.lag.Rows[row].at(age)))
		}
	}
}

// amended reports whether a minute of a pool has changed after its first count.
func (a *Aggregator) amended(p *pool) bool {
	for _, c := range p.classes {
		for m := a.oldest(); c.open > 0 && m < a.open; m++ {
			if at := a.find(c, m); at != nil && a.dirty(at, m) {
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

// nowcastRow learns the increments of one dimension of a class, scores the minute that settles, and estimates open
// ones.
func (a *Aggregator) nowcastRow(p *pool, c *class, row int, records float64) {
	n, d, r, oldest := &a.nowcasting, c.nowcasts, &c.nowcasts.Rows[row], int(a.revise)
	value := func(age int) float64 { return n.values[age*len(d.Rows)+row] }
	sum := 0.0
	for age := range oldest + 1 {
		if v := value(age); !math.IsNaN(v) {
			sum += v
		}
	}
	r.weigh(sum, records)
	quantum := r.quantum()
	r.fade(keep(float64(d.Records)))
	for age := 1; age <= oldest; age++ {
		m := a.open - int64(age)
		x := float64(float32(value(age)) - d.Last[d.slot(m)*len(d.Rows)+row])
		if !p.teaches(c, m) || a.censored(p, m) != p.coverage[a.slot(m)].censored || math.IsNaN(x) {
			continue // or the meaning of its values has changed
		}
		r.learn(age, x, value(age))
		p.lag.Rows[row].learn(age, x, value(age))
	}
	if m := a.oldest(); p.teaches(c, m) {
		d.score(row, m, value(oldest))
	}

	r.Hazards.shares(n.shares, n.priors[row*oldest:(row+1)*oldest], quantum)
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

// teaches reports whether the increments of a minute since the last Close show usual delays.
func (p *pool) teaches(c *class, m int64) bool { return m > p.lag.Gap && m >= c.nowcasts.Since }

// read reads the values of the open minutes of a class. A usually reported value is zero until reported.
func (a *Aggregator) read(p *pool, c *class, n *nowcasting) {
	ages := int(a.revise) + 1
	n.values, n.records, n.shares = grown(n.values, ages*len(nowcasted)), grown(n.records, ages), grown(n.shares, ages)
	for age := range ages {
		m := a.open - int64(age)
		w := &n.nothing
		if at := a.find(c, m); at != nil {
			n.copied = at.Window
			w = &n.copied
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
