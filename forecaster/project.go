package forecaster

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/value"
)

// Capacity is the safe load of one replica in a dimension. reportedKV is the KV capacity that engines report, 0 if they
// do not. ok is false if the dimension does not limit the pool. With 90 % probability the true load is between low and
// high times PerReplica: 1 and 1 if it is exact.
type Capacity interface {
	PerReplica(dimension string, reportedKV float64) (safe float64, ok bool)
	Spread(dimension string) (low, high float64)
}

// Lag is the distribution of the warm-up lag.
type Lag interface {
	Quantile(p float64) time.Duration
	// ReadyBy is the probability that a replica requested then, and not ready at now, is ready at t.
	ReadyBy(requested, now, t time.Time) float64
}

// unequalCaches is how far the smallest KV cache of a replica may be below the mean without a warning.
const unequalCaches = 0.1

// LeadTime is how soon a decision can take effect: the 90 % quantile of the warm-up lag and one tick.
func LeadTime(lag Lag) time.Duration { return lag.Quantile(0.9) + features.Minute }

// WarningWindow is how far ahead warnings look: the lead time and a quarter of an hour. With a lead of 13 minutes, on
// the second thirds of eleven traces, windows of 24 to 45 minutes warned in time of 12 % more saturations than 18
// minutes did, with as many false alarms.
func WarningWindow(lead time.Duration) time.Duration { return lead + 15*time.Minute }

// Supply is the replicas of a pool: ready now, and pending.
type Supply struct {
	Ready   int
	Pending []time.Time // when each was requested, ascending
}

// ETA is a distribution of the time from the origin to saturation. Zero means now. Never means that the share of paths
// that saturate within the horizon is too small for the quantile.
type ETA struct {
	P10, P50, P90 time.Duration
}

// Never is an ETA beyond the horizon.
const Never time.Duration = -1

// Seconds is a part of an ETA in seconds. It is infinite for Never, so that it compares as later than any time.
func Seconds(d time.Duration) float64 {
	if d == Never {
		return math.Inf(1)
	}
	return d.Seconds()
}

// Span is three quantiles of a quantity that may be negative.
type Span struct {
	P10, P50, P90 float64
}

// ResourceProjection is the saturation risk of one resource of a pool.
type ResourceProjection struct {
	Dimension   string
	PerReplica  float64          // safe capacity of one replica, in the dimension's unit
	Demand      float64          // newest known demand
	Utilisation float64          // demand over ready capacity; NaN without a ready replica
	Probability [Horizon]float64 // P(demand exceeds capacity in some minute ≤ h), non-decreasing
	ETA         ETA
	Headroom    Span // of the smallest (capacity − demand)/capacity within the lead window; negative when short, NaN without a replica
	// AfterFailure is the headroom with the replicas that remain without the reserve for failures; nil without a reserve.
	AfterFailure *Span
}

// Driver is a class behind a projected rise.
type Driver struct {
	Class  string  `json:"class"`
	Tenant string  `json:"tenant,omitempty"` // with most of the rise of the class's tokens, else the heaviest
	Cause  string  `json:"cause,omitempty"`  // missing if no change is significant, or too little is known
	Factor float64 `json:"factor,omitempty"` // newest over an hour ago; newest share of requests (mix, retries) or cache hits (cache)
	Share  float64 `json:"share"`            // of the pool's demand for the binding resource

	CacheHit  *float64 `json:"cache_hit"`  // share of prompt tokens that were cached; null if unknown
	CacheLoss *float64 `json:"cache_loss"` // what it lost in the hour, negative if it gained; null if unknown

	// Shares of the class's tokens in about the last hour: the true ones lie within share ± margin.
	TenantShare   float64 `json:"tenant_share,omitempty"`
	TenantMargin  float64 `json:"tenant_margin,omitempty"`
	Feature       string  `json:"feature,omitempty"` // as tenant
	FeatureShare  float64 `json:"feature_share,omitempty"`
	FeatureMargin float64 `json:"feature_margin,omitempty"`

	// Shares of the rise of the class's tokens within the last half hour; 0 without a rise, or below one half.
	TenantRise  float64 `json:"tenant_rise,omitempty"`
	FeatureRise float64 `json:"feature_rise,omitempty"`
}

// Projection is the saturation risk of a pool.
type Projection struct {
	Lead        time.Duration // see LeadTime
	Supply      Supply
	Reserve     int // replicas kept for failures
	Resources   []ResourceProjection
	Binding     string  // dimension with the highest risk, or the least headroom; "" if no resource has a capacity
	Probability float64 // that the binding resource saturates within the lead window
	ETA         ETA
	Drivers     []Driver
	Confidence  Confidence
	Warnings    []string
	// Prompts is the projection of the prefill replicas of a disaggregated pool; nil in other pools.
	Prompts *Projection
}

// Project compares the sample paths of a pool's demand with its supply: ready replicas, and pending ones as they become
// ready. ResourceProjection.AfterFailure is for the supply without the reserve for failures. Each path draws its own
// warm-up lag, and its own capacity if that is uncertain. window is the span of probabilities and headroom. calibrator
// turns shares of paths into probabilities; nil uses the shares. O(resources × paths × minutes).
func Project(
	pf *PoolForecast, pool Capacity, lag Lag, supply Supply, reserve int, window time.Duration, calibrator *Calibrator,
) Projection {
	p := Projection{
		Lead: LeadTime(lag), Supply: supply, Reserve: reserve,
		ETA: ETA{Never, Never, Never}, Confidence: Cold,
	}
	span := WindowMinutes(window)
	ready, left := readyPaths(pf.Origin, lag, supply, 0), readyPaths(pf.Origin, lag, supply, reserve)
	for i := range pf.Total {
		f := &pf.Total[i]
		name := f.Dimension
		per, ok := pool.PerReplica(name, pf.Minute.State.KVCapacityTokens)
		if !ok || !(per > 0) {
			continue
		}
		least, mean := pf.Minute.State.KVCapacityLeast, pf.Minute.State.KVCapacityTokens
		if name == features.DimKV && least < (1-unequalCaches)*mean {
			p.Warnings = append(p.Warnings, fmt.Sprintf("the smallest KV cache of a replica has %s tokens, and the mean is %s: "+
				"it is full first where requests are spread evenly", value.Short(least), value.Short(mean)))
		}
		if carries := pf.Minute.Carries(name, per); carries > per {
			p.Warnings = append(p.Warnings, fmt.Sprintf(
				"requests share prefixes: the engines hold only %.2f of their KV tokens, so the KV capacity of a replica counts as larger", per/carries))
			per = carries
		}
		curves := calibrator.curvesOf(name, f.Basis.Stage)
		r := projectResource(name, per, f.Paths, drawCapacity(pool, name, ready), span, &curves)
		r.Demand = f.Now.Mean
		if have := per * float64(ready[0][0]); have > 0 {
			r.Utilisation = r.Demand / have
		}
		if reserve > 0 {
			r.AfterFailure = new(projectResource(name, per, f.Paths, drawCapacity(pool, name, left), span, &curves).Headroom)
		}
		p.Resources = append(p.Resources, r)
	}
	if len(p.Resources) == 0 {
		if f := pf.Of(features.DimRequests); f != nil {
			p.Confidence = f.Confidence
		}
		return p
	}
	binding := slices.MaxFunc(p.Resources, func(a, b ResourceProjection) int {
		return cmp.Or(cmp.Compare(a.Probability[span-1], b.Probability[span-1]), cmp.Compare(b.Headroom.P10, a.Headroom.P10))
	})
	p.Binding, p.Probability, p.ETA = binding.Dimension, binding.Probability[span-1], binding.ETA
	p.Confidence = pf.Of(p.Binding).Confidence
	return p
}

// readyPaths is the number of ready replicas minus reserve, on each path at the start of each minute. NumPaths is a
// power of two and 53 is odd, so every level of the lag occurs once, in an order unrelated to the paths' ranks. All
// replicas of a path have the same level. O(Horizon × pending × paths).
func readyPaths(origin time.Time, lag Lag, supply Supply, reserve int) [][Horizon]float32 {
	out := make([][Horizon]float32, NumPaths)
	ready := make([]float64, len(supply.Pending))
	for h := range Horizon {
		at := origin.Add(time.Duration(h) * features.Minute)
		for i, asked := range supply.Pending {
			ready[i] = lag.ReadyBy(asked, origin, at)
		}
		for j := range out {
			level := (float64(j*53%NumPaths) + .5) / NumPaths
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

// drawCapacity scales each path's replicas by a level of their capacity's distribution, which is piecewise linear
// through its bounds and the middle. It returns ready if the capacity is exact.
func drawCapacity(pool Capacity, dimension string, ready [][Horizon]float32) [][Horizon]float32 {
	low, high := pool.Spread(dimension)
	if low == 1 && high == 1 {
		return ready
	}
	const tail, least = 0.45, 0.05 // probability between the middle and a bound; the least factor
	out := make([][Horizon]float32, len(ready))
	for j := range ready {
		// 37 is odd, as 53 in readyPaths: every level once, in an order unrelated to ranks and lags.
		level := (float64(j*37%len(ready))+.5)/float64(len(ready)) - .5
		side := high - 1
		if level < 0 {
			side = 1 - low
		}
		factor := float32(math.Max(1+level/tail*side, least))
		for h := range ready[j] {
			out[j][h] = ready[j][h] * factor
		}
	}
	return out
}

// projectResource compares paths of demand with paths of ready replicas, of capacity per each. c turns shares of paths
// into probabilities. Headroom is over the first span minutes.
func projectResource(name string, per float64, demand, ready [][Horizon]float32, span int, c *horizonCurves) ResourceProjection {
	r := ResourceProjection{Dimension: name, PerReplica: per, Utilisation: math.NaN()}
	headroom := make([]float64, len(demand))
	for j := range demand {
		first := Horizon // minute of saturation
		headroom[j] = math.Inf(1)
		for h := Horizon - 1; h >= 0; h-- {
			load, capacity := float64(demand[j][h]), per*float64(ready[j][h])
			if load > capacity {
				first = h
			}
			if h < span {
				headroom[j] = min(headroom[j], 1-load/capacity) // NaN or infinite without a replica
			}
		}
		if first < Horizon {
			r.Probability[first] += 1 / float64(len(demand))
		}
	}
	for h := 1; h < Horizon; h++ {
		r.Probability[h] = math.Min(1, r.Probability[h]+r.Probability[h-1])
	}
	least := 0.0 // probabilities must not decrease
	for h, p := range r.Probability {
		curve := c.upTo(h + 1)
		least = math.Max(least, 1-curve.at(1-p))
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
	curve := c.upTo(span)
	at := func(p float64) float64 {
		if v := headroom[min(int((1-curve.level(1-p))*float64(len(headroom))), len(headroom)-1)]; !math.IsInf(v, 0) {
			return v
		}
		return math.NaN()
	}
	r.ETA = ETA{eta(.1), eta(.5), eta(.9)}
	r.Headroom = Span{at(.1), at(.5), at(.9)}
	return r
}

// rise is the rise of a class's load within the last hour.
type rise struct {
	*class
	is, was shapeSums // in the last minutes, and an hour before
	now     float64   // demand
	growth  float64   // of the load, retries included
	isNew   bool
}

// Drivers names the classes behind a pool's demand for a dimension, at most n: first those with a cause in the last
// hour, then the others, the largest rise first.
func (f *Forecaster) Drivers(poolName, dimension string, n int) []Driver {
	i, ok := f.find(poolName)
	d := features.ForecastIndex(dimension)
	if !ok || d < 0 {
		return nil
	}
	p := f.pools[i]
	// Series are without events, a rise is with them.
	event, eventBefore := p.multiplier(p.newest()), p.multiplier(p.newest()-shapeBack)
	var rises []rise
	var total, requests, before float64 // demand; requests now, and an hour ago where that is known
	for _, c := range p.classes {
		s := c.series[d]
		if s == nil {
			continue
		}
		h := s.history
		now := h.Mean(h.Newest-shapeSpan+1, h.Newest)
		if newest := h.Mean(h.Newest-2, h.Newest); !math.IsNaN(newest) { // else a step would show only after minutes
			now = (now + newest) / 2
		}
		if math.IsNaN(now) || now == 0 {
			continue
		}
		total += now
		was, is := c.Shape.sum(shapeBack), c.Shape.sum(0)
		r, load := rise{class: c, is: is, was: was, now: now}, event*now*attempts(&is)
		switch then := h.Mean(h.Newest-shapeBack-shapeSpan+1, h.Newest-shapeBack); {
		case is.Minutes < minMinutes: // growth is not known
		case was.Minutes >= minMinutes:
			r.growth, r.isNew = load-eventBefore*zeroIfNaN(then)*attempts(&was), was.Requests == 0
		case c.Began:
			r.growth, r.isNew = load, true
		}
		requests += float64(is.Requests)
		if was.Minutes < minMinutes && !r.isNew {
			was.Requests = is.Requests // not comparable: as if nothing had changed
		}
		before += float64(was.Requests)
		rises = append(rises, r)
	}
	slices.SortStableFunc(rises, func(a, b rise) int { return cmp.Compare(b.growth, a.growth) })
	var out, others []Driver
	for _, r := range rises[:min(max(n, maxCauses), len(rises))] {
		part := float64(r.is.Requests) / requests
		cause, size := "", 0.0
		switch {
		case r.growth <= 0: // no cause
		case r.isNew && r.now >= minShare*total && before >= minShare*requests: // not if the pool had no traffic before
			cause, size = CauseMix, part
		case !r.isNew:
			cause, size = r.Shape.cause(dimension)
			if cause == CauseRate && requests-before < float64(r.is.Requests-r.was.Requests)/2 {
				cause, size = CauseMix, part
			}
		}
		driver := r.driver(cause, size, total)
		if cause == "" {
			others = append(others, driver)
		} else {
			out = append(out, driver)
		}
	}
	out = append(out, others...)
	return out[:min(n, len(out))]
}

// driver describes the class as a driver of the pool's total demand. Its rise is not significant without a cause.
func (r *rise) driver(cause string, size, total float64) Driver {
	tenant, feature := &r.Shape.Tenant, &r.Shape.Feature
	out := Driver{
		Class:  r.key.Class,
		Cause:  cause,
		Factor: size,
		Share:  r.now / total,

		CacheHit:  known(r.is.cacheHit()),
		CacheLoss: known(r.was.cacheHit() - r.is.cacheHit()),

		Tenant:       tenant.Name,
		TenantShare:  zeroIfNaN(tenant.Share),
		TenantMargin: zeroIfNaN(tenant.Margin),
		TenantRise:   tenant.Rise,

		Feature:       feature.Name,
		FeatureShare:  zeroIfNaN(feature.Share),
		FeatureMargin: zeroIfNaN(feature.Margin),
		FeatureRise:   feature.Rise,
	}
	if cause == "" {
		out.TenantRise, out.FeatureRise = 0, 0
	}
	return out
}

// known is v; nil if it is NaN.
func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

// maxCauses is the least number of classes that are tested for a cause.
const maxCauses = 16

// attempts is the number of attempts per call; 1 without calls.
func attempts(s *shapeSums) float64 {
	if s.Requests == 0 {
		return 1
	}
	return float64((s.Requests + s.Retries) / s.Requests)
}

// Limit is a limit of a whole pool that more replicas do not raise, such as a rate limit or a quota.
type Limit struct {
	Name       string
	Dimensions []string // of demand, summed up
	PerS       float64  // largest sum, per second
}

// ProjectLimits compares the sample paths of a pool's demand with its limits, as Project does with capacity; PerReplica
// of the results is the limit. Paths are not calibrated. A limit of 0, or of a dimension without a forecast, is
// skipped. O(limits × paths × minutes).
func ProjectLimits(pf *PoolForecast, limits []Limit, window time.Duration) []ResourceProjection {
	var out []ResourceProjection
	var none *Calibrator
	one, uncalibrated := readyPaths(pf.Origin, nil, Supply{Ready: 1}, 0), none.curvesOf("", 0)
	for _, l := range limits {
		demand, now, ok := pf.sum(l.Dimensions)
		if !(l.PerS > 0) || !ok {
			continue
		}
		r := projectResource(l.Name, l.PerS, demand, one, WindowMinutes(window), &uncalibrated)
		r.Demand, r.Utilisation = now, now/l.PerS
		out = append(out, r)
	}
	return out
}

// sum adds up the paths of dimensions, and their newest demand; ok is false if one has no forecast. Cached tokens have
// none: each request has as many as in the last ten minutes.
func (pf *PoolForecast) sum(dimensions []string) (paths [][Horizon]float32, now float64, ok bool) {
	for _, name := range dimensions {
		f, each := pf.Of(name), float32(1)
		if name == features.DimCached {
			if f = pf.Of(features.DimRequests); f != nil {
				each = f.Basis.Recent.Cached / max(f.Basis.Recent.Requests, 1)
			}
		}
		if f == nil || math.IsNaN(f.Now.Mean) {
			return nil, 0, false
		}
		now += f.Now.Mean * float64(each)
		if paths == nil {
			paths = make([][Horizon]float32, len(f.Paths))
		}
		for j := range paths {
			for h, y := range f.Paths[j] {
				paths[j][h] += y * each
			}
		}
	}
	return paths, now, paths != nil
}
