package forecaster

import "math"

// eventForecasts applies the events of a pool to its forecasts of one origin. Nil if no event is near.
type eventForecasts struct {
	pool *pool
	// Sums of medians by dimension and minute: without events, with events, and of the classes that each event applies
	// to.
	without, with [][Horizon]float64
	concerned     [][][Horizon]float64
}

func (p *pool) eventForecasts() *eventForecasts {
	near := false
	for _, x := range p.effects {
		x.setMinute(p.newest)
		near = near || x.near()
	}
	if !near {
		return nil
	}
	o := &eventForecasts{pool: p, without: make([][Horizon]float64, len(dimensions)), with: make([][Horizon]float64, len(dimensions))}
	o.concerned = make([][][Horizon]float64, len(p.effects))
	for i := range o.concerned {
		o.concerned[i] = make([][Horizon]float64, len(dimensions))
	}
	return o
}

// class multiplies the forecast of a class, and widens it by the uncertainty of the change from now.
func (o *eventForecasts) class(d int, f *Forecast) {
	if o == nil {
		return
	}
	var by impact
	now := 0.0
	for _, x := range o.pool.effects {
		if !x.event.applies(f.Class) {
			continue
		}
		now += x.Mean * x.now()
		x.describe(f)
		for h := range by.mean {
			s := x.ahead(h + 1)
			by.mean[h] += x.Mean * s
			by.variance[h] += x.Var * (s - x.recent()) * (s - x.recent())
		}
	}
	for h := range f.Minute {
		o.without[d][h] += f.Minute[h][L50]
	}
	by.apply(f, now)
	for h := range f.Minute {
		o.with[d][h] += f.Minute[h][L50]
		for i, x := range o.pool.effects {
			if x.event.applies(f.Class) {
				o.concerned[i][d][h] += f.Minute[h][L50]
			}
		}
	}
}

// describe adds the event to the basis of a forecast.
func (x *effect) describe(f *Forecast) {
	if !x.near() {
		return
	}
	wide := z90 * math.Sqrt(x.Var)
	f.Basis.Events = append(f.Basis.Events, EventEffect{
		Name: x.Name, Stated: x.Stated, Learned: math.Exp(x.Mean), Low: math.Exp(x.Mean - wide), High: math.Exp(x.Mean + wide),
		Now: x.now(), Ahead: x.ahead(targets[midLead].to),
	})
}

// total changes the forecast of the pool in proportion to its classes. Call it after all classes.
func (o *eventForecasts) total(d int, f *Forecast) {
	if o == nil {
		return
	}
	var by impact
	now := 0.0
	for h := range by.mean {
		if o.without[d][h] > 0 {
			by.mean[h] = math.Log(o.with[d][h] / o.without[d][h])
		}
	}
	for i, x := range o.pool.effects {
		share := 1.0
		if x.event.Class != "" {
			share = ratioOrDefault(o.concerned[i][d][0], o.with[d][0], 0)
		}
		x.describe(f)
		now += x.Mean * x.now() * share
		for h := range by.mean {
			if x.event.Class != "" {
				share = ratioOrDefault(o.concerned[i][d][h], o.with[d][h], 0)
			}
			change := (x.ahead(h+1) - x.recent()) * share
			by.variance[h] += x.Var * change * change
		}
	}
	by.apply(f, now)
}

func ratioOrDefault(a, b, otherwise float64) float64 {
	if b > 0 {
		return a / b
	}
	return otherwise
}

// impact is the mean and variance, by minute, of the logarithm of the factor of all events.
type impact struct{ mean, variance [Horizon]float64 }

// apply changes a forecast; now is the mean of the newest minute.
func (c *impact) apply(f *Forecast, now float64) {
	if now != 0 {
		f.Last *= math.Exp(now)
		scale(&f.Now, math.Exp(now))
	}
	was := windowMedian(f)
	widest := 0.0
	for h := range f.Minute {
		multiply(&f.Minute[h], c.mean[h], c.variance[h])
		if h+1 >= WindowFrom && h+1 <= WindowTo {
			widest = math.Max(widest, c.variance[h])
		}
	}
	mean := 0.0
	if was > 0 {
		mean = math.Log(windowMedian(f) / was)
	}
	multiply(&f.WindowMax, mean, widest)
}

// windowMedian is the largest median of a minute in the window.
func windowMedian(f *Forecast) (m float64) {
	for h := WindowFrom; h <= WindowTo; h++ {
		m = math.Max(m, f.Minute[h-1][L50])
	}
	return m
}

// multiply multiplies a distribution by an independent log-normal factor; mean and variance are of its logarithm.
// Distances from the median, as logarithms, add up like standard deviations.
func multiply(q *Quantiles, mean, variance float64) {
	if mean == 0 && variance == 0 {
		return
	}
	median := q[L50]
	for i := range q {
		z := gaussian[i]
		switch {
		case q[i] == 0:
		case median > 0:
			d := math.Log(q[i] / median)
			q[i] = median * math.Exp(mean+math.Copysign(math.Sqrt(d*d+z*z*variance), z))
		default:
			q[i] *= math.Exp(mean + z*math.Sqrt(variance))
		}
	}
	q.Sort()
}
