package dynamo

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/server"
	pb "github.com/forewarm/forewarm/server/dynamo/pluginpb"
)

// maxHitRate bounds the prefix-cache hit rate that scales up prompts.
const maxHitRate = 0.99

// predict converts a forecast to the planner's form: the requests of one observation window, and the mean lengths of
// their prompts and outputs, in tokens. The planner provides for the products, so these are the demand quantiles of the
// decision. With q the decision's quantile, H the minutes until replicas requested now are ready, and R, P, D the
// largest q-quantile within H of requests, uncached prompt tokens and output tokens, all per second:
//
//	num_req = R · duration    isl = P / R / (1 − hit rate)    osl = D / R
//
// The hit rate is the planner's own, because the planner subtracts that share again. ok is false if R is unknown or not
// above zero, or if the planner does not send its window. Unknown lengths are left out.
func predict(v *server.PoolView, seen *pb.TrafficMetrics) (_ *pb.PredictionData, ok bool) {
	largest := func(dimension string) float64 {
		f := v.Forecast.Of(dimension)
		if f == nil {
			return math.NaN()
		}
		peak := math.NaN()
		for h := range minutes(v.Decision.Lead) {
			if x := f.Minute[h].At(v.Decision.Quantile); !(x <= peak) {
				peak = x
			}
		}
		return peak
	}
	requests, duration := largest(features.DimRequests), float64(seen.GetDurationS())
	if !(requests > 0 && duration > 0) {
		return nil, false
	}
	p := &pb.PredictionData{PredictedNumReq: new(float32(requests * duration))}
	unhit := 1.0
	if seen.KvHitRate != nil {
		p.PredictedKvHitRate = seen.KvHitRate
		unhit = 1 - min(max(float64(seen.GetKvHitRate()), 0), maxHitRate)
	}
	if x := largest(features.DimPrefill) / requests / unhit; x > 0 {
		p.PredictedIsl = new(float32(x))
	}
	if x := largest(features.DimDecode) / requests; x > 0 {
		p.PredictedOsl = new(float32(x))
	}
	return p, true
}

// minutes is a lead time in whole minutes of forecast, at least one.
func minutes(lead time.Duration) int {
	return min(max(int(math.Ceil(lead.Minutes())), 1), forecaster.Horizon)
}
