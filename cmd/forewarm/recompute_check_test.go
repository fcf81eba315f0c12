package main

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/forecaster"
)

// recomputed computes the numbers of a report again from the stored data, minute by minute. Times are Unix minutes.
type recomputed struct {
	*testing.T
	*raw
	from, to int64
}

// same compares a number of the report with the computed one.
func (x *recomputed) same(what string, got report.Number, want float64) {
	x.Helper()
	if math.IsNaN(float64(got)) && (math.IsNaN(want) || math.IsInf(want, 0)) {
		return
	}
	if !(math.Abs(float64(got)-want) <= 1e-6*(1e-3+math.Abs(want))) {
		x.Errorf("%s is %v in the report, want %v", what, float64(got), want)
	}
}

func (x *recomputed) count(what string, got, want int) {
	x.Helper()
	x.same(what, report.Number(got), float64(want))
}

// scoredForecast is one forecast with its outcome.
type scoredForecast struct {
	origin, minute int64
	q              map[float64]float64
	y, last        float64 // the outcome, and the forecast of the last value
}

func (x *recomputed) accuracy(p *report.Pool) {
	rows := 0
	for _, class := range []string{"*", "c0", "c1"} {
		for _, dimension := range []string{"requests", "prefill", "decode", "kv"} {
			for _, horizon := range []string{"5", "15", "30", "60", "max15_30"} {
				i := slices.IndexFunc(p.Accuracy, func(a report.Accuracy) bool {
					return a.Class == class && a.Dimension == dimension && a.Horizon == horizon
				})
				if i < 0 {
					x.Errorf("the report has no row of %s, %s, %s", class, dimension, horizon)
					continue
				}
				x.row(&p.Accuracy[i])
				rows++
			}
		}
	}
	if rows != len(p.Accuracy) {
		x.Errorf("the report has %d rows, want %d", len(p.Accuracy), rows)
	}
}

// forecasts returns the forecasts of a row, and the number of those without a known outcome.
func (x *recomputed) forecasts(a *report.Accuracy) (known []scoredForecast, missing int) {
	demand, quantiles := x.demand(a.Class, a.Dimension), x.quantiles(a.Class, a.Dimension, a.Horizon)
	largest := func(from, to int64) float64 {
		most := math.Inf(-1)
		for m := from; m <= to; m++ {
			most = math.Max(most, demand(m))
		}
		return most
	}
	for m := x.from; m < x.to; m++ {
		f := scoredForecast{minute: m}
		if a.Horizon == "max15_30" {
			f.origin = m - 29
			f.y = largest(f.origin+14, f.origin+29)
			f.last = largest(f.origin-16, f.origin-1)
		} else {
			h, _ := strconv.Atoi(a.Horizon)
			f.origin = m - int64(h) + 1
			f.y, f.last = demand(m), demand(f.origin-1)
		}
		if f.q = quantiles(f.origin); f.q == nil {
			continue
		}
		if math.IsNaN(f.y) {
			missing++
		} else {
			known = append(known, f)
		}
	}
	return known, missing
}

func (x *recomputed) row(a *report.Accuracy) {
	name := a.Class + " " + a.Dimension + " " + a.Horizon + ": "
	all, missing := x.forecasts(a)
	n := float64(len(all))
	x.count(name+"outcomes", a.Outcomes, len(all))
	x.count(name+"missing", a.Missing, missing)
	var sum, off, bias, own, last, held float64
	for _, f := range all {
		e := f.q[.5] - f.y
		sum, off, bias = sum+f.y, off+math.Abs(e), bias+e
		if f.y <= f.q[.9] {
			held++
		}
		if !math.IsNaN(f.last) {
			own, last = own+math.Abs(e), last+math.Abs(f.y-f.last)
		}
	}
	x.same(name+"mean", a.Mean, sum/n)
	x.same(name+"WAPE", a.WAPE, off/sum)
	x.same(name+"bias", a.Bias, bias/sum)
	x.same(name+"skill", a.Skill, 1-own/last)
	x.same(name+"coverage", a.Q90.Share, held/n)
	x.interval(name, a.Horizon, a.Q90, all)
}

// interval checks Wilson's interval, for the number of outcomes that do not overlap.
func (x *recomputed) interval(name, horizon string, c forecaster.Coverage, all []scoredForecast) {
	h := 30.
	if minutes, err := strconv.Atoi(horizon); err == nil {
		h = float64(minutes)
	}
	n, p := float64(len(all)), float64(c.Share)
	step := float64(all[len(all)-1].origin-all[0].origin) / (n - 1)
	effective := n / math.Max(1, math.Ceil(h/step))
	const z2 = 1.959964 * 1.959964
	mid := (effective*p + z2/2) / (effective + z2)
	half := math.Sqrt(mid*mid - effective*p*p/(effective+z2))
	x.same(name+"effective outcomes", c.Effective, effective)
	x.same(name+"lower bound", c.Low, mid-half)
	x.same(name+"upper bound", c.High, mid+half)
}

func (x *recomputed) totals(p *report.Pool) {
	for _, total := range p.Totals {
		sum := func(dimension string) (tokens float64) {
			demand := x.demand(total.Class, dimension)
			for m := x.from; m < x.to; m++ {
				if y := demand(m); !math.IsNaN(y) {
					tokens += 60 * y
				}
			}
			return tokens
		}
		x.same("requests of "+total.Class, total.Requests, sum("requests"))
		x.same("prompt tokens of "+total.Class, total.PromptTokens, sum("prefill")+sum("cached"))
		x.same("cached tokens of "+total.Class, total.CachedTokens, sum("cached"))
		x.same("output tokens of "+total.Class, total.OutputTokens, sum("decode"))
	}
	unknown, decided := 0, 0
	requests := x.demand("*", "requests")
	for m := x.from; m < x.to; m++ {
		if math.IsNaN(requests(m)) {
			unknown++
		}
		if x.inForce(m) != nil {
			decided++
		}
	}
	x.count("minutes with demand", p.Data.Observed, int(x.to-x.from)-unknown)
	x.count("minutes decided", p.Data.Decided, decided)
}

// most returns the largest value of a decision's resources, NaN when none is known.
func (x *recomputed) most(d *alerting.Decision, minute int64, of func(load, perReplica float64) float64) float64 {
	most := math.NaN()
	if d != nil {
		for _, r := range d.Resources {
			if v := of(x.demand("*", r.Dimension)(minute)*x.retried(r.Dimension, minute), r.PerReplica); !math.IsNaN(v) && !(v <= most) {
				most = v
			}
		}
	}
	return most
}

func (x *recomputed) decisions(p *report.Pool) {
	var paid, needed, over, under float64
	var must []int
	lag, known := 0., 0 // the lag of the newest decision
	for m := x.from; m < x.to; m++ {
		d := x.inForce(m)
		if d == nil {
			must = append(must, -1)
			continue
		}
		lag = d.Basis.Warmup.P50 / 60
		need := x.most(d, m, func(demand, per float64) float64 { return math.Ceil(demand/per - 1e-9) })
		if math.IsNaN(need) {
			must = append(must, -1)
			continue
		}
		known++
		paid += float64(d.Ready + d.Pending)
		needed += need
		over += math.Max(0, float64(d.Ready)-math.Max(need+float64(d.Reserves.Total()), float64(d.Basis.Least)))
		under += math.Max(0, need-float64(d.Ready))
		must = append(must, min(max(int(need), d.Basis.Least), d.Limit))
	}
	least := float64(cheapestPath(must, int(math.Round(lag))))
	o, v := &p.Decisions, &p.Decisions.Provision
	x.count("minutes with known need", v.KnownMinutes, known)
	for what, c := range map[string]struct {
		got  report.Amount
		want float64
	}{"needed": {v.Needed, needed}, "over": {v.Over, over}, "under": {v.Under, under},
		"paid": {v.Paid, paid}, "static": {v.Static, float64(slices.Max(must) * known)}, "hindsight": {v.Hindsight, least}} {
		x.same(what+", replica-hours", c.got.ReplicaHours, c.want/60)
		x.same(what+", GPU-hours", c.got.GPUHours, c.want/60*2)
		x.same(what+", USD", c.got.USD, c.want/60*2*3)
	}

	actions, hour := 0, 0
	var before *alerting.Decision
	rose := false
	for i := 1; i < len(x.raw.decisions); i++ {
		d, last := &x.raw.decisions[i], &x.raw.decisions[i-1]
		at := d.Tick.Unix() / 60
		if d.Desired == last.Desired || at < x.from-120 || at >= x.to {
			continue
		}
		rises := d.Desired > last.Desired
		if at >= x.from {
			actions++
			if before != nil && rises != rose && d.Tick.Sub(before.Tick).Hours() <= 1 {
				hour++
			}
		}
		before, rose = d, rises
	}
	x.count("actions", o.Actions, actions)
	x.count("actions taken back in an hour", o.TakenBack, hour)
}

// cheapestPath tries each number of replicas in each minute. A replica costs 1 a minute, its start costs lag. A need of
// -1 is unknown: the minute costs nothing.
func cheapestPath(needs []int, lag int) int {
	top := slices.Max(needs)
	best := make([]int, top+1)
	first := true
	for _, need := range needs {
		if need < 0 {
			continue
		}
		next := make([]int, top+1)
		for to := range next {
			next[to] = 1 << 30
			for from := range best {
				cost := best[from] + to
				if to > from && !first {
					cost += lag * (to - from)
				}
				if to >= need {
					next[to] = min(next[to], cost)
				}
			}
		}
		best, first = next, false
	}
	return slices.Min(best)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
