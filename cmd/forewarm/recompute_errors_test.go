package main

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
)

// heldAgainst is one forecast of a resource with what came: loads, and what ready replicas carry.
type heldAgainst struct {
	minute, origin int64
	forecast, came utilisation
}

type utilisation struct{ demand, retries, ready, capacity float64 }

func (u utilisation) load() float64    { return u.demand * u.retries }
func (u utilisation) carried() float64 { return u.ready * u.capacity }
func (u utilisation) of() float64      { return u.load() / u.carried() }

func (h *heldAgainst) off() float64 { return h.came.of() - h.forecast.of() }

// horizon of the farm's forecasts that the newest decision needs: the first that is not below its lead.
func (x *recomputed) horizon() string {
	var lead time.Duration
	for i := range x.raw.decisions {
		if d := &x.raw.decisions[i]; d.Tick.Unix()/60 < x.to {
			lead = d.Lead
		}
	}
	for _, kept := range []int{5, 15, 30} {
		if time.Duration(kept)*time.Minute >= lead {
			return strconv.Itoa(kept)
		}
	}
	return "60"
}

// errors finds every large error again, and takes those that are explained apart.
func (x *recomputed) errors(p *report.Pool) {
	if len(p.Errors) == 0 {
		x.Error("no error is explained")
	}
	rows, explained, horizon := 0, 0, x.horizon()
	for _, resource := range []string{"prefill", "decode", "kv"} {
		all := x.heldAgainst(resource, horizon)
		large := x.large(all)
		step := spacing(all)
		episodes := farOff(all, large, step)
		i := slices.IndexFunc(p.LargeErrors, func(c report.LargeErrors) bool { return c.Resource == resource })
		if i < 0 || p.LargeErrors[i].Horizon != horizon {
			x.Errorf("large errors of %s at %s are not counted", resource, horizon)
			continue
		}
		rows++
		c := &p.LargeErrors[i]
		what := "large errors of " + resource + " at " + horizon + ": "
		minutes, size := 0, 0.0
		for _, e := range episodes {
			for j := range e {
				minutes, size = minutes+int(step), size+math.Abs(e[j].off())*float64(step)
			}
		}
		x.count(what+"forecasts", c.Forecasts, len(all))
		x.same(what+"large from", c.Large, large)
		x.count(what+"episodes", c.Episodes, len(episodes))
		x.count(what+"minutes", c.Minutes, minutes)
		x.same(what+"size", c.Size, size)
		x.count(what+"explained", c.Explained, len(episodes)) // the farm has fewer than are explained at most
		x.same(what+"explained size", c.ExplainedSize, size)
		for _, e := range episodes {
			x.episode(p, resource, horizon, e, step)
			explained++
		}
	}
	x.count("resources with errors counted", len(p.LargeErrors), rows)
	x.count("errors explained", len(p.Errors), explained)
	x.stories(p)
}

// stories sees that each error is of one story, and that those of a story are of one time and one sign.
func (x *recomputed) stories(p *report.Pool) {
	last := 0
	for i, e := range p.Errors {
		if e.Incident != last && e.Incident != last+1 {
			x.Errorf("incident %d follows %d", e.Incident, last)
		}
		if last = e.Incident; i == 0 || p.Errors[i-1].Incident != e.Incident {
			continue
		}
		if together := slices.ContainsFunc(p.Errors, func(o report.ErrorEpisode) bool {
			return o.Incident == e.Incident && o.Resource != e.Resource && (o.Error > 0) == (e.Error > 0) &&
				!o.Start.After(e.Start.Add(time.Duration(e.Minutes+10)*time.Minute)) && !e.Start.After(o.Start.Add(time.Duration(o.Minutes+10)*time.Minute))
		}); !together {
			x.Errorf("%s at %s, from %s, is near nothing in its story", e.Resource, e.Horizon, e.Start)
		}
	}
	if last < 4 || last == len(p.Errors) {
		x.Errorf("%d errors make %d stories", len(p.Errors), last)
	}
}

// episode finds the explained error of an episode, and sees what it says of the whole and of its causes.
func (x *recomputed) episode(p *report.Pool, resource, horizon string, all []heldAgainst, step int64) {
	from, to := all[0].minute, all[len(all)-1].minute
	i := slices.IndexFunc(p.Errors, func(e report.ErrorEpisode) bool {
		return e.Resource == resource && e.Horizon == horizon && e.Start.Unix()/60 == from && (e.Error > 0) == (all[0].off() > 0)
	})
	if i < 0 {
		x.Errorf("%s at %s from minute %d is not explained", resource, horizon, from)
		return
	}
	e := &p.Errors[i]
	what := resource + " at " + horizon + e.Start.Format(" 15:04: ")
	x.count(what+"minutes", e.Minutes, int(to-from+step))
	if most := 240; len(all) > most {
		x.Fatalf("%sof more than %d minutes some are left out: choose a shorter one", what, most)
	}
	x.count(what+"forecasts", e.Attributed, len(all))
	var f, a utilisation // sums: of demand, load, what is carried, and ready
	for i := range all {
		for _, s := range []struct {
			sum *utilisation
			one utilisation
		}{{&f, all[i].forecast}, {&a, all[i].came}} {
			s.sum.demand += s.one.demand
			s.sum.retries += s.one.load()
			s.sum.ready += s.one.ready
			s.sum.capacity += s.one.carried()
		}
	}
	for _, s := range []*utilisation{&f, &a} { // means, of which utilisation is the product
		s.capacity /= s.ready
		if s.retries /= s.demand; s.demand == 0 {
			s.retries = 1
		}
	}
	x.same(what+"forecast utilisation", e.Forecast, f.of())
	x.same(what+"utilisation", e.Actual, a.of())
	whole := 0.0
	part := map[report.Cause]float64{}
	for _, c := range e.Parts {
		part[c.Cause] += float64(c.Amount)
		whole += float64(c.Amount)
	}
	x.same(what+"sum of the parts", e.Error, whole)
	x.same(what+"difference", e.Error, a.of()-f.of())

	// What requests ask for, and the supply, from sums by class: each takes its share by the logarithmic mean.
	var weights, loads float64
	var level, mix, telemetry float64 // of arrivals
	seen, lossy := x.seen(resource, all, step)
	classes := []string{"c0", "c1"}
	var requests, demand [2][2]float64 // class; forecast, came
	for c, class := range classes {
		requests[c] = x.sums(class, "requests", horizon, all)
		demand[c] = x.sums(class, resource, horizon, all)
	}
	pool := x.sums("*", "requests", horizon, all)
	share := func(of [2][2]float64, c, which int) float64 { // classes are scaled to add up to the pool
		if of[c][which] == 0 {
			return 0
		}
		return of[c][which] / (of[0][which] + of[1][which])
	}
	// A class of which tokens came and no request began is taken to have had as much load a request as was forecast.
	tokensOnly := func(c int) float64 {
		if demand[c][0] == 0 || requests[c][1] > 0 {
			return 0
		}
		return pool[0] * share(requests, c, 0) * a.demand * share(demand, c, 1) / (f.demand * share(demand, c, 0))
	}
	more := math.Log((pool[1] + tokensOnly(0) + tokensOnly(1)) / seen[1] * seen[0] / pool[0])
	for c := range classes {
		part := func(of [2][2]float64, which int) float64 { return share(of, c, which) }
		nf, na := pool[0]*part(requests, 0), pool[1]*part(requests, 1)
		uf, ua := f.of()*part(demand, 0), a.of()*part(demand, 1)
		if ua == 0 && na == 0 || uf == 0 && nf == 0 { // nothing of the class came, or was forecast
			switch {
			case lossy && ua < uf || seen[0] < .5 && uf == 0:
				telemetry += ua - uf
			case pool[0] == 0 || pool[1] == 0:
				level += ua - uf
			default:
				mix += ua - uf
			}
			continue
		}
		if na == 0 {
			na = tokensOnly(c)
		}
		if !(uf > 0 && ua > 0 && nf > 0 && na > 0) {
			x.Fatalf("%sclass %d: %v requests and %v of utilisation forecast, %v and %v came", what, c, nf, uf, na, ua)
		}
		weight := uf
		if math.Abs(ua-uf) > 1e-12*uf {
			weight = (ua - uf) / math.Log(ua/uf)
		}
		df, da := f.demand*part(demand, 0), a.demand*part(demand, 1)
		weights += weight
		arrivals := math.Log(na / seen[1] * seen[0] / nf)
		telemetry += weight * math.Log(seen[1]/seen[0])
		switch {
		case lossy && arrivals < 0:
			telemetry += weight * arrivals
		case lossy:
			level += weight * arrivals
		default:
			level, mix = level+weight*more, mix+weight*(arrivals-more)
		}
		loads += weight * math.Log(da/na*nf/df)
	}
	x.part(what+"demand level", e, level, report.CauseDemand)
	x.part(what+"class mix", e, mix, report.CauseMix)
	x.part(what+"telemetry", e, telemetry, report.CauseTelemetry)
	x.part(what+"load of a request", e, loads, report.CausePrompt, report.CauseOutput, report.CauseCache, report.CauseHeld)
	x.part(what+"retries", e, weights*math.Log(a.retries/f.retries), report.CauseRetries)
	x.part(what+"capacity", e, -weights*math.Log(a.capacity/f.capacity), report.CauseCapacity)
	x.part(what+"warm-up", e, -weights*math.Log(a.ready/f.ready), report.CauseWarmup)
}

// part compares what causes explain together.
func (x *recomputed) part(what string, e *report.ErrorEpisode, want float64, causes ...report.Cause) {
	x.Helper()
	got := 0.0
	for _, p := range e.Parts {
		if slices.Contains(causes, p.Cause) {
			got += float64(p.Amount)
		}
	}
	x.same(what, report.Number(got), want)
}

// sums are the forecasts of a class over an episode, and what came; where nothing was forecast, the quarter of an hour
// before it.
func (x *recomputed) sums(class, dimension, horizon string, all []heldAgainst) (of [2]float64) {
	demand, quantiles := x.demand(class, dimension), x.quantiles(class, dimension, horizon)
	for i := range all {
		h := &all[i]
		if y := demand(h.minute); !math.IsNaN(y) {
			of[1] += y
		}
		if q := quantiles(h.origin); q != nil {
			of[0] += float64(float32(q[.5]))
			continue
		}
		sum, n := 0.0, 0.0
		for m := h.origin - 15; m < h.origin; m++ {
			if y := demand(m); !math.IsNaN(y) {
				sum, n = sum+y, n+1
			}
		}
		of[0] += sum / math.Max(n, 1)
	}
	return of
}

// spacing is the minutes that a forecast stands for: until the next, by the median.
func spacing(all []heldAgainst) int64 {
	var apart []float64
	for i := 1; i < len(all); i++ {
		apart = append(apart, float64(all[i].minute-all[i-1].minute))
	}
	return int64(median(apart))
}

// farOff are the episodes: of one sign, by no more than ten minutes apart, that sum up to half a minute's capacity.
func farOff(all []heldAgainst, large float64, step int64) (episodes [][]heldAgainst) {
	for _, h := range all {
		if math.Abs(h.off()) < large {
			continue
		}
		if n := len(episodes); n > 0 {
			last := episodes[n-1][len(episodes[n-1])-1]
			if h.minute-last.minute-step <= 10 && (h.off() > 0) == (last.off() > 0) {
				episodes[n-1] = append(episodes[n-1], h)
				continue
			}
		}
		episodes = append(episodes, []heldAgainst{h})
	}
	return slices.DeleteFunc(episodes, func(e []heldAgainst) bool {
		size := 0.0
		for i := range e {
			size += math.Abs(e[i].off()) * float64(step)
		}
		return size < .5
	})
}

// large is from which difference of utilisation an error counts.
func (x *recomputed) large(all []heldAgainst) float64 {
	var offs []float64
	for i := range all {
		offs = append(offs, all[i].off())
	}
	middle := median(offs)
	for i := range offs {
		offs[i] = math.Abs(offs[i] - middle)
	}
	return math.Max(.1, 2*1.4826*median(offs))
}

// heldAgainst gives the forecasts of a resource about the period, with all that utilisation takes.
func (x *recomputed) heldAgainst(resource, horizon string) (out []heldAgainst) {
	demand, quantiles := x.demand("*", resource), x.quantiles("*", resource, horizon)
	standing, capacity := map[int64]*alerting.Decision{}, map[int64]float64{}
	for m := x.from - 120; m < x.to; m++ {
		if d := x.standing(m); d != nil {
			standing[m] = d
			for _, r := range append(slices.Clone(d.Resources), d.Prompts...) {
				if r.Dimension == resource {
					capacity[m] = r.PerReplica
				}
			}
			if _, ok := capacity[m]; !ok && d.ByRole != nil && len(d.Resources) > 0 && resource == "prefill" {
				for _, r := range d.Basis.Rates {
					if r.Dimension == resource {
						capacity[m] = cmp.Or(min(r.Stated, r.Learned), r.Stated)
					}
				}
			}
		}
	}
	following := map[int64]float64{} // by hour
	for hour := (x.from - 120) / 60; hour <= x.to/60; hour++ {
		var day []float64
		for at := hour * 60; at < min(hour*60+1440, x.to); at++ {
			if c, ok := capacity[at]; ok {
				day = append(day, c)
			}
		}
		following[hour] = median(day)
	}
	for m := x.from; m < x.to; m++ {
		ahead, _ := strconv.Atoi(horizon)
		h := heldAgainst{minute: m, origin: m - int64(ahead) + 1}
		q, issued, now := quantiles(h.origin), standing[h.origin], standing[h.minute]
		if q == nil || issued == nil || now == nil {
			continue
		}
		due := math.Inf(1)
		for at := h.minute - int64(math.Round(issued.Basis.Warmup.P50/60)); at <= h.minute; at++ {
			if d := standing[at]; d != nil {
				due = math.Min(due, float64(max(d.Ready+d.Pending, d.Desired)))
			}
		}
		h.forecast = utilisation{float64(float32(q[.5])), x.retried(resource, h.origin-1), due, capacity[h.origin]}
		h.came = utilisation{demand(h.minute), x.retried(resource, h.minute), float64(now.Ready), following[h.minute/60]}
		if now.ByRole != nil && resource == "prefill" {
			h.came.ready = float64(now.ByRole.Prefill)
			h.forecast.ready = h.came.ready
		}
		if off := h.off(); !math.IsNaN(off) && !math.IsInf(off, 0) {
			out = append(out, h)
		}
	}
	return out
}

// caused sees that errors of the hour from a time on are mostly due to what was planted then.
func (x *recomputed) caused(p *report.Pool, from time.Time, resource string, cause report.Cause, class string) {
	x.Helper()
	i := slices.IndexFunc(p.Errors, func(e report.ErrorEpisode) bool {
		// A forecast stands for five minutes that begin one minute before a full five.
		return !e.Start.Before(from.Add(-time.Minute)) && !e.Start.After(from.Add(time.Hour)) && e.Resource == resource
	})
	if i < 0 {
		x.Errorf("no error of %s is explained after %s", resource, from)
		return
	}
	e := &p.Errors[i]
	largest := slices.MaxFunc(e.Parts, func(a, b report.ErrorPart) int {
		return cmp.Compare(math.Abs(float64(a.Amount)), math.Abs(float64(b.Amount)))
	})
	if largest.Cause != cause || class != "" && e.Drivers[0].Class != class {
		x.Errorf("%s at %s, %s: %+v, driven by %+v", resource, e.Horizon, e.Start, e.Parts, e.Drivers)
	}
}
