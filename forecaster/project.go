package forecaster

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// Capacity says what one replica can safely carry of a dimension; reportedKV is the KV capacity that engines report, 0
// when they do not. ok is false for a dimension that does not limit the pool.
type Capacity interface {
	PerReplica(dimension string, reportedKV float64) (safe float64, ok bool)
}

// Uncertain is a Capacity that was estimated: it lies between low and high times what PerReplica says with a probability of
// 90 %. 1 and 1 for a dimension that is known for sure.
type Uncertain interface {
	Spread(dimension string) (low, high float64)
}

// Lag is the distribution of the time from asking for a replica to having it.
type Lag interface {
	Quantile(p float64) time.Duration
	// ReadyBy is the probability that a replica asked for at requested, and not ready at now, is ready at t.
	ReadyBy(requested, now, t time.Time) float64
}

// leadQuantile of the warm-up lag is what a decision must look past.
const leadQuantile = 0.9

// LeadTime is the nearest instant that scaling can still change: the 90 % quantile of the warm-up lag and one tick.
func LeadTime(lag Lag) time.Duration { return lag.Quantile(leadQuantile) + features.Minute }

// warnedBeyond is how far beyond the lead time warnings look. On the second thirds of eleven traces, of windows of 12, 18, 24, 30 and
// 45 minutes with a lead of 13, those of 24 to 45 announced most saturations in time for the same false alarms: 12 % more than
// one of 18.
const warnedBeyond = 15 * time.Minute

// WarningWindow is how far ahead a saturation is warned of: what scaling still can change, and a quarter hour more to see it
// coming.
func WarningWindow(lead time.Duration) time.Duration { return lead + warnedBeyond }

// Project sets the sample paths of a pool's demand against its supply: replicas that are ready now, plus pending ones as they
// become ready; ResourceProjection.AfterFailure has what is left without the reserve that is kept for failures. Each path
// draws its own warm-up lag, and its own capacity where that is Uncertain. window is how far ahead
// probabilities and headroom are summed up. calibrator turns shares of paths into probabilities; nil takes them at their
// word. O(resources × paths × minutes).
func Project(pf *PoolForecast, pool Capacity, lag Lag, supply Supply, reserve int, window time.Duration, calibrator *Calibrator) Projection {
	p := Projection{
		Pool: pf.Pool, Origin: pf.Origin, Lead: LeadTime(lag), Supply: supply, Reserve: reserve, Stale: pf.Stale,
		ETA: ETA{Never, Never, Never}, Confidence: Cold,
	}
	span := windowMinutes(window)
	ready, left := readyPaths(pf, lag, supply, 0), readyPaths(pf, lag, supply, reserve)
	warned := windowMinutes(WarningWindow(p.Lead)) - 1
	for d, name := range pf.Paths.Dimensions {
		per, ok := pool.PerReplica(name, pf.Minute.State.KVCapacityTokens)
		if !ok || !(per > 0) {
			continue
		}
		if carries := pf.Minute.Carries(name, per); carries > per {
			p.Warnings = append(p.Warnings, fmt.Sprintf("requests share prefixes: the engines hold %.2f of their KV tokens, and a replica counts for as much more", per/carries))
			per = carries
		}
		r := projectResource(name, per, pf, pf.Paths.At[d], drawCapacity(pool, name, ready), span, calibrator)
		if have := per * float64(ready[0][0]); have > 0 && pf.Of(name) != nil {
			r.Utilisation = r.Demand / have
		}
		if reserve > 0 {
			l := projectResource(name, per, pf, pf.Paths.At[d], drawCapacity(pool, name, left), span, calibrator)
			r.AfterFailure = &Remainder{Chance{l.Probability[span-1], l.ETA, l.Probability[warned]}, l.Headroom}
		}
		p.Resources = append(p.Resources, r)
	}
	if len(p.Resources) == 0 {
		p.Warnings = append(p.Warnings, "no resource of this pool has both a forecast and a capacity")
		return p
	}
	binding := &p.Resources[0]
	for i := range p.Resources[1:] {
		r := &p.Resources[i+1]
		a, b := r.Probability[span-1], binding.Probability[span-1]
		if a > b || a == b && r.Headroom.P10 < binding.Headroom.P10 {
			binding = r
		}
	}
	p.Binding, p.Probability, p.ETA = binding.Dimension, binding.Probability[span-1], binding.ETA
	f := pf.Of(p.Binding)
	p.Confidence = f.Confidence
	if f.Fallback {
		p.Warnings = append(p.Warnings, "the last value was better than the network at "+p.Binding+" of late; it has the larger part in the forecast")
	}
	return p
}

// readyPaths is the number of usable replicas on each path at the start of each minute. 53 is odd, so every level of the lag
// is visited once, in an order unrelated to the paths' ranks. All replicas of a path are as slow as each other.
func readyPaths(pf *PoolForecast, lag Lag, supply Supply, reserve int) [][Horizon]float32 {
	var levels [NumPaths]float64
	for j := range levels {
		levels[j] = (float64(j*53%NumPaths) + .5) / NumPaths
	}
	return usable(pf.Origin, lag, supply, reserve, levels[:]...)
}

// usable is the number of replicas, less reserve, that are ready at the start of each minute from origin on, where the lag of
// those on their way is at each of these levels of its distribution. O(Horizon · (pending · levels)).
func usable(origin time.Time, lag Lag, supply Supply, reserve int, levels ...float64) [][Horizon]float32 {
	out := make([][Horizon]float32, len(levels))
	ready := make([]float64, len(supply.Pending))
	for h := range Horizon {
		at := origin.Add(time.Duration(h) * features.Minute)
		for i, asked := range supply.Pending {
			ready[i] = lag.ReadyBy(asked, origin, at)
		}
		for j, level := range levels {
			n := supply.Ready - reserve
			for _, p := range ready {
				if level <= p {
					n++
				}
			}
			out[j][h] = float32(max(n, 0))
		}
	}
	return out
}

// drawCapacity is ready with each path's replicas worth more or less, by the spread of their capacity; ready itself when
// that is known for sure. The distribution is piecewise linear through its bounds and the middle.
func drawCapacity(pool Capacity, dimension string, ready [][Horizon]float32) [][Horizon]float32 {
	u, ok := pool.(Uncertain)
	if !ok {
		return ready
	}
	low, high := u.Spread(dimension)
	if low == 1 && high == 1 {
		return ready
	}
	const tail, least = 0.45, 0.05 // from the middle to a bound; no replica is worth less than a twentieth
	out := make([][Horizon]float32, len(ready))
	for j := range ready {
		// 37 is odd: every level once, in an order unrelated to the ranks' and the lags'.
		level := (float64(j*37%len(ready))+.5)/float64(len(ready)) - .5
		side := high - 1
		if level < 0 {
			side = 1 - low
		}
		worth := float32(math.Max(1+level/tail*side, least))
		for h := range ready[j] {
			out[j][h] = ready[j][h] * worth
		}
	}
	return out
}

func projectResource(name string, per float64, pf *PoolForecast, demand, ready [][Horizon]float32, span int, calibrator *Calibrator) ResourceProjection {
	worth := calibrator.worth(name)
	r := ResourceProjection{Dimension: name, PerReplica: per, Utilisation: math.NaN()}
	if f := pf.Of(name); f != nil {
		r.Demand = f.Now.Mean
	}
	headroom := make([]float64, len(demand))
	for j := range demand {
		passage := Horizon + 1
		headroom[j] = math.Inf(1)
		for h := Horizon - 1; h >= 0; h-- {
			demand, capacity := float64(demand[j][h]), per*float64(ready[j][h])
			if demand > capacity {
				passage = h + 1
			}
			if h < span {
				headroom[j] = min(headroom[j], 1-demand/capacity) // without a replica NaN or infinite: there is no share to speak of
			}
		}
		if passage <= Horizon {
			r.Probability[passage-1] += 1 / float64(len(demand))
		}
	}
	for h := 1; h < Horizon; h++ {
		r.Probability[h] = math.Min(1, r.Probability[h]+r.Probability[h-1])
	}
	var far margins
	if worth.known {
		far = newMargins(per, demand, ready)
	}
	least := 0.0 // what is by a minute is by the next one
	for h, p := range r.Probability {
		least = math.Max(least, worth.probability(p, h+1, &far))
		r.Probability[h] = least
	}
	slices.Sort(headroom) // NaN first
	eta := func(p float64) time.Duration {
		for h, by := range r.Probability {
			if by > p {
				return time.Duration(h) * features.Minute
			}
		}
		return Never
	}
	at := func(p float64) float64 {
		if v := headroom[min(int((1-worth.level(1-p, span))*float64(len(headroom))), len(headroom)-1)]; !math.IsInf(v, 0) {
			return v
		}
		return math.NaN()
	}
	r.ETA = ETA{eta(.1), eta(.5), eta(.9)}
	r.Headroom = Span{at(.1), at(.5), at(.9)}
	return r
}

// Drivers names the classes that a pool's demand for a dimension comes from, at most n: first those of which something changed over
// the last hour, then the others, heaviest rise first.
func (f *Forecaster) Drivers(poolName, dimension string, n int) []Driver {
	p := f.pool(poolName)
	d := slices.IndexFunc(dimensions, func(d features.Dimension) bool { return d.Name == dimension })
	if d < 0 {
		return nil
	}
	type rise struct {
		*class
		past        *model.History
		now, growth float64 // with retries
		isNew       bool
	}
	var rises []rise
	var total, requests, before float64 // of requests, what came of classes that can be compared
	for _, c := range p.classes {
		s := c.series[d]
		if s == nil {
			continue
		}
		h := s.history
		now := h.Mean(h.Newest-shapeSpan+1, h.Newest)
		if math.IsNaN(now) || now == 0 {
			continue
		}
		total += now
		was, is := c.shape.sum(shapeBack), c.shape.sum(0)
		r := rise{c, h, now, now * attempts(&is), false}
		switch then := h.Mean(h.Newest-shapeBack-shapeSpan+1, h.Newest-shapeBack); {
		case is.Minutes < leastMinutes:
			r.growth = 0
		case was.Minutes >= leastMinutes:
			r.growth -= zeroIfNaN(then) * attempts(&was)
			r.isNew = was.Requests == 0
		default:
			if r.isNew = c.began; !r.isNew {
				r.growth = 0
			}
		}
		requests += float64(is.Requests)
		if was.Minutes >= leastMinutes || r.isNew {
			before += float64(was.Requests)
		} else {
			before += float64(is.Requests) // as if nothing had changed
		}
		rises = append(rises, r)
	}
	sort.SliceStable(rises, func(i, j int) bool { return rises[i].growth > rises[j].growth })
	var out, others []Driver
	for _, r := range rises[:min(max(n, maxCauses), len(rises))] {
		is, was := r.shape.sum(0), r.shape.sum(shapeBack)
		part := float64(is.Requests) / requests
		var cause string
		var size float64
		switch {
		case r.growth <= 0:
		case r.isNew && r.now >= leastShare*total && before >= leastShare*requests: // a pool without any traffic before is no comparison
			cause, size = CauseMix, part
		case !r.isNew:
			cause, size = r.shape.cause(dimension)
			if cause == CauseRate && requests-before < float64(is.Requests-was.Requests)/2 {
				cause, size = CauseMix, part
			}
		}
		tenant, feature := &r.shape.Tenant, &r.shape.Feature
		driver := Driver{
			Class: r.key.Class, Cause: cause, Factor: size, Share: r.now / total, Since: onset(r.past, r.past.Newest-shapeBack-shapeSpan+1, r.past.Newest),
			Tenant: tenant.Name, TenantShare: zeroIfNaN(tenant.Share), TenantMargin: zeroIfNaN(tenant.Margin), TenantRise: tenant.Rise,
			Feature: feature.Name, FeatureShare: zeroIfNaN(feature.Share), FeatureMargin: zeroIfNaN(feature.Margin), FeatureRise: feature.Rise,
		}
		if cause != "" {
			out = append(out, driver)
			continue
		}
		driver.TenantRise, driver.FeatureRise = 0, 0 // chance
		others = append(others, driver)
	}
	out = append(out, others...)
	return out[:min(n, len(out))]
}

// maxCauses is how many classes of a pool are asked for a cause, at least.
const maxCauses = 16

// attempts are those a call in a load; 1 where nothing came.
func attempts(s *shapeSums) float64 {
	if s.Requests == 0 {
		return 1
	}
	return float64((s.Requests + s.Retries) / s.Requests)
}
