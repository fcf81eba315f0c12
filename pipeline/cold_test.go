package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/ingest"
)

// trafficAtStart is traffic that began before a daemon starts at midnight. Requests are reported when they end, so
// those that ended before midnight are missing. The rate is in requests per second.
func trafficAtStart(minutes int, lasts time.Duration, rate func(minute float64) float64) []ingest.Batch {
	r := rand.New(rand.NewPCG(1, 2))
	var all []ingest.Request
	for at := -1800.0; at < float64(minutes)*60; at += r.ExpFloat64() / rate(at/60) {
		arrived := midnight.Add(time.Duration(at * float64(time.Second)))
		took := time.Duration((.5 + r.Float64()) * float64(lasts))
		all = append(all, ingest.Request{
			ID: fmt.Sprint(len(all)), Pool: "p", Class: []string{"chat", "agent"}[len(all)%2], Attempt: 1, ArrivedAt: arrived, FirstTokenAt: arrived.Add(took / 10),
			FinishedAt: arrived.Add(took), PromptTokens: 1000, CachedTokens: 100, OutputTokens: int64(took.Seconds() * 30), MaxOutputTokens: ingest.Unknown,
		})
	}
	slices.SortFunc(all, func(a, b ingest.Request) int { return a.FinishedAt.Compare(b.FinishedAt) })
	out := make([]ingest.Batch, minutes)
	for i := range all {
		if m := int(all[i].FinishedAt.Sub(midnight).Minutes()); m < minutes && !all[i].FinishedAt.Before(midnight) {
			out[m].Requests = append(out[m].Requests, all[i])
		}
	}
	for m := range out {
		out[m].Sequence, out[m].Watermark = uint64(m+1), &ingest.Watermark{Pool: "p", At: midnight.Add(time.Duration(m+1) * time.Minute)}
	}
	return out
}

// TestColdForecasts: in the first hour, medians of flat and of rising demand are near the present demand.
func TestColdForecasts(t *testing.T) {
	flat := func(float64) float64 { return 5 }
	rising := func(m float64) float64 { return 5 * max(1, 1+.1*(m-30)) }
	type check struct{ minute, least, most int } // least and most in percent of the present demand
	for name, tt := range map[string]struct {
		lasts  time.Duration
		rate   func(float64) float64
		checks []check
	}{
		"flat, seconds":    {2 * time.Second, flat, []check{{5, 80, 125}, {15, 85, 120}, {60, 85, 120}}},
		"flat, a minute":   {time.Minute, flat, []check{{5, 70, 150}, {15, 85, 120}, {60, 85, 120}}},
		"flat, minutes":    {3 * time.Minute, flat, []check{{5, 55, 180}, {15, 75, 125}, {60, 85, 120}}},
		"rising, seconds":  {9 * time.Second, rising, []check{{45, 80, 125}, {60, 80, 125}}},
		"rising, a minute": {time.Minute, rising, []check{{45, 75, 125}, {60, 75, 125}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := eventConfig(t, "p")
			c.Classify = features.ClassifyConfig{}
			p := New(c)
			at := map[int][]forecaster.Forecast{}
			batches := trafficAtStart(80, tt.lasts, tt.rate)
			for i := range batches {
				p.Apply(&batches[i], func(out *Output) {
					if len(out.Pools) > 0 {
						at[int(out.Tick.Sub(midnight).Minutes())] = slices.Clone(out.Pools[0].Forecast.Total)
					}
				})
			}
			for _, x := range tt.checks {
				if len(at[x.minute]) != 4 {
					t.Fatalf("%d forecasts at minute %d", len(at[x.minute]), x.minute)
				}
				requests := tt.rate(float64(x.minute))
				for _, f := range at[x.minute] {
					is := map[string]float64{features.DimRequests: requests, features.DimPrefill: 900 * requests, features.DimDecode: 30 * tt.lasts.Seconds() * requests}[f.Dimension]
					if is == 0 {
						is = f.Now.Mean
					}
					for _, ahead := range []int{1, 15, 30, 60} {
						if of := 100 * f.Minute[ahead-1][forecaster.L50] / is; of < float64(x.least) || of > float64(x.most) {
							t.Errorf("minute %d, %s: the median %d minutes ahead is %.0f %% of the present demand, %.4g, which is estimated as %.4g", x.minute, f.Dimension, ahead, of, is, f.Now.Mean)
						}
					}
				}
			}
		})
	}
}
