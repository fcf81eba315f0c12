package forecaster

import "math"

// upcoming puts the events of a pool into its forecasts of one origin. Nil when no event is near.
type upcoming struct {
	pool *pool
	// medians by dimension and minute: without events, with them, and of what each event concerns.
	without, with [][Horizon]float64
	concerned     [][][Horizon]float64
}

func (p *pool) upcoming() *upcoming {
	near := false
	for _, x := range p.effects {
		x.look(p.newest)
		near = near || x.near()
	}
	if !near {
		return nil
	}
	o := &upcoming{pool: p, without: make([][Horizon]float64, len(dimensions)), with: make([][Horizon]float64, len(dimensions))}
	o.concerned = make([][][Horizon]float64, len(p.effects))
	for i := range o.concerned {
		o.concerned[i] = make([][Horizon]float64, len(dimensions))
	}
	return o
}

// class multiplies the forecast of a class, and widens it by how uncertain the change from now is.
func (o *upcoming) class(d int, f *Forecast) {
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
		x.list(f)
		for h := range by.mean {
			s := x.ahead(h + 1)
			by.mean[h] += x.Mean * s
			by.variance[h] += x.Var * (s - x.seen()) * (s - x.seen())
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

// list names the event in a forecast that it changes.
func (x *effect) list(f *Forecast) {
	if !x.near() {
		return
	}
	wide := ninety * math.Sqrt(x.Var)
	f.Basis.Events = append(f.Basis.Events, EventEffect{
		Name: x.Name, Stated: x.Stated, Learned: math.Exp(x.Mean), Low: math.Exp(x.Mean - wide), High: math.Exp(x.Mean + wide),
		Now: x.now(), Ahead: x.ahead(targets[midLead].to),
	})
}

// total does the same for the pool, after all classes: events change what they concern of it.
func (o *upcoming) total(d int, f *Forecast) {
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
			share = ratioOr(o.concerned[i][d][0], o.with[d][0], 0)
		}
		x.list(f)
		now += x.Mean * x.now() * share
		for h := range by.mean {
			if x.event.Class != "" {
				share = ratioOr(o.concerned[i][d][h], o.with[d][h], 0)
			}
			change := (x.ahead(h+1) - x.seen()) * share
			by.variance[h] += x.Var * change * change
		}
	}
	by.apply(f, now)
}

func ratioOr(a, b, otherwise float64) float64 {
	if b > 0 {
		return a / b
	}
	return otherwise
}

// impact is what events do to a forecast: mean and variance, by minute, of the logarithm of a factor.
type impact struct{ mean, variance [Horizon]float64 }

// apply changes a forecast; now is the mean for its newest minute.
func (c *impact) apply(f *Forecast, now float64) {
	if now != 0 {
		f.Last *= math.Exp(now)
		magnify(&f.Now, math.Exp(now))
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

// windowMedian is the largest median of a minute in the window whose maximum is forecast.
func windowMedian(f *Forecast) (m float64) {
	for h := WindowFrom; h <= WindowTo; h++ {
		m = math.Max(m, f.Minute[h-1][L50])
	}
	return m
}

// multiply multiplies a distribution by an independent log-normal factor whose logarithm has a mean and a variance. About
// the median the distances of logarithms add up like standard deviations.
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
