package forecaster

import (
	"math"
	"testing"
	"time"
)

// TestProjectLimits: a quota on two dimensions is reached when their sum reaches it, however many replicas there are.
func TestProjectLimits(t *testing.T) {
	pf, other := ramp("prefill", 400, 5), ramp("decode", 400, 5)
	pf.Total = append(pf.Total, other.Total...)
	got := ProjectLimits(&pf, []Limit{
		{Name: "tokens_per_min", Dimensions: []string{"prefill", "decode"}, PerS: 1000},
		{Name: "requests_per_min", Dimensions: []string{"requests"}, PerS: 10}, // no forecast
		{Name: "none", Dimensions: []string{"decode"}},
	}, 30*time.Minute)
	if len(got) != 1 || got[0].Dimension != "tokens_per_min" || got[0].PerReplica != 1000 {
		t.Fatalf("%+v", got)
	}
	// As in TestProjectRamp, the sum grows by 10 a minute from 800.
	if r := got[0]; r.ETA != (ETA{17 * time.Minute, 18 * time.Minute, 19 * time.Minute}) || r.Demand != 800 || r.Utilisation != .8 || r.Probability[29] != 1 {
		t.Errorf("%+v", r)
	}
	// With 20 cached tokens in each of the last ten minutes' requests, 10 requests/s are 200 tokens/s more.
	requests := ramp("requests", 10, 0)
	requests.Total[0].Basis.Recent = shapeSums{Requests: 6000, Cached: 120_000}
	pf.Total = append(pf.Total, requests.Total...)
	got = ProjectLimits(&pf, []Limit{{Name: "tokens_per_min", Dimensions: []string{"prefill", "cached", "decode"}, PerS: 1200}}, 30*time.Minute)
	if len(got) != 1 || math.Abs(got[0].Demand-1000) > 1e-3 || got[0].ETA.P50 != 18*time.Minute {
		t.Errorf("with cached tokens: %+v", got)
	}
	if got := ProjectLimits(&PoolForecast{}, []Limit{{Name: "x", Dimensions: []string{"kv"}, PerS: 1}}, time.Hour); got != nil {
		t.Errorf("%+v without a forecast", got)
	}
}
