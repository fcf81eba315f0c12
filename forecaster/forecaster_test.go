package forecaster

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/features"
)

func minuteAt(i int) time.Time { return time.Unix((startMinute+int64(i))*60, 0).UTC() }

// window is a minute in which a class asked for y requests per second. NaN means that nothing is known of the minute.
func window(pool, class string, i int, y float64) features.Window {
	w := features.Window{Key: features.Key{Pool: pool, Class: class}, Start: minuteAt(i), Settled: true}
	if !math.IsNaN(y) {
		w.Covered = true
		w.Requests, w.Reports, w.Known = 60*y, features.ReportsRequests, features.ReportsRequests
	}
	return w
}

func observePool(f *Forecaster, minutes int, classes map[string]func(i int) float64, names ...string) PoolForecast {
	for i := range minutes {
		var ws []features.Window
		for _, name := range names {
			ws = append(ws, window("p", name, i, classes[name](i)))
		}
		f.Observe(ws, []features.PoolMinute{{Pool: "p", Start: minuteAt(i), Covered: true, LastEvent: minuteAt(i)}})
	}
	return f.Forecast(minuteAt(minutes))[0]
}

func classQuantileSum(pf *PoolForecast, h, level int) float64 {
	sum := 0.0
	for _, c := range pf.Classes {
		if c.Dimension == features.DimRequests {
			sum += c.Minute[h-1][level]
		}
	}
	return sum
}

// TestQuantilesOfTotal: independent classes hardly ever peak together, so the pool's 95 % quantile is well below the
// sum of theirs. It is close to the sum for classes that move together.
func TestQuantilesOfTotal(t *testing.T) {
	independent, together := map[string]func(int) float64{}, map[string]func(int) float64{}
	names := []string{"a", "b", "c", "d"}
	for n, name := range names {
		independent[name] = noisy(rand.New(rand.NewPCG(1, uint64(n))))
		together[name] = noisy(rand.New(rand.NewPCG(2, 2)))
	}
	spread := func(classes map[string]func(int) float64) (float64, PoolForecast) {
		pf := observePool(New(Config{}), 1440+720, classes, names...)
		total := pf.Of(features.DimRequests).Minute[19]
		sum := classQuantileSum(&pf, 20, L95) - classQuantileSum(&pf, 20, L50)
		return (total[L95] - total[L50]) / sum, pf
	}
	ri, pf := spread(independent)
	rt, _ := spread(together)
	if ri > .75 || rt < .8 {
		t.Errorf("spread of the total over the sum of spreads: %.2f if independent, %.2f if together", ri, rt)
	}
	// The paths have the quantiles of the total.
	at := pf.Total[0].Paths
	above := 0
	for j := range at {
		if float64(at[j][19]) > pf.Of(features.DimRequests).Minute[19][L90] {
			above++
		}
	}
	if share := float64(above) / float64(len(at)); math.Abs(share-.1) > .02 {
		t.Errorf("%.3f of the paths lie above the 90 %% quantile", share)
	}
}

// TestForecastInGap: after an hour without telemetry the forecast is where it was, and marked as stale.
func TestForecastInGap(t *testing.T) {
	f := New(Config{StaleAfter: 5 * time.Minute})
	y := noisy(rand.New(rand.NewPCG(3, 3)))
	before := observePool(f, 1500, map[string]func(int) float64{"c": y}, "c")
	for i := 1500; i < 1560; i++ {
		f.Observe([]features.Window{window("p", "c", i, math.NaN())}, []features.PoolMinute{{Pool: "p", Start: minuteAt(i), LastEvent: minuteAt(1499)}})
	}
	after := f.Forecast(minuteAt(1560))[0]
	if before.Stale || !after.Stale {
		t.Errorf("stale: %v before the gap, %v after an hour of it", before.Stale, after.Stale)
	}
	a, b := before.Of(features.DimRequests).Minute[29][L50], after.Of(features.DimRequests).Minute[29][L50]
	if b < .7*a || b > 1.3*a {
		t.Errorf("median %v before the gap, %v after", a, b)
	}
}

// TestAmend: a late count corrects the history of the class and of the pool.
func TestAmend(t *testing.T) {
	f := New(Config{Settle: 10 * time.Minute})
	observePool(f, 100, map[string]func(int) float64{"a": func(int) float64 { return 10 }, "b": func(int) float64 { return 5 }}, "a", "b")
	f.Observe([]features.Window{window("p", "a", 95, 30)}, nil)
	p := f.pools[0]
	if got := p.class("a").series[0].history.At(startMinute + 95); got != 30 {
		t.Errorf("the class has %v, want 30", got)
	}
	if got := p.total.series[0].history.At(startMinute + 95); got != 35 {
		t.Errorf("the total has %v, want 35", got)
	}
}

// TestAmendToNothing: minutes that are known later, and had no demand, are known to the pool's total too. If the
// watermarks of a silent pool come late, all its minutes are such.
func TestAmendToNothing(t *testing.T) {
	f := New(Config{Settle: 10 * time.Minute, StaleAfter: 5 * time.Minute})
	y := func(int) float64 { return 10 }
	observePool(f, 100, map[string]func(int) float64{"a": y, "b": y}, "a", "b")
	for i := 100; i < 160; i++ {
		for _, w := range [][]features.Window{
			{window("p", "a", i-1, 0), window("p", "b", i-1, 0)}, {window("p", "a", i, math.NaN()), window("p", "b", i, math.NaN())},
		} {
			if i > 100 || w[0].Start.Equal(minuteAt(i)) {
				f.Observe(w, []features.PoolMinute{{Pool: "p", Start: minuteAt(i), LastEvent: minuteAt(i)}})
			}
		}
	}
	total := f.Forecast(minuteAt(160))[0].Of(features.DimRequests)
	if total.Known != 159 || total.Now.Mean > .1 || total.Minute[14][L95] > 1 {
		t.Errorf("%d minutes of the total are known, want 159; demand is %v now, the 95 %% quantile %v", total.Known, total.Now.Mean, total.Minute[14][L95])
	}
}

// TestForecastChangesNothing: forecasts do not depend on earlier calls of Forecast.
func TestForecastChangesNothing(t *testing.T) {
	y := noisy(rand.New(rand.NewPCG(4, 4)))
	f, g := New(Config{}), New(Config{})
	for i := range 600 {
		w := []features.Window{window("p", "c", i, y(i))}
		f.Observe(w, nil)
		g.Observe(w, nil)
		f.Forecast(minuteAt(i + 1))
	}
	a, b := f.Forecast(minuteAt(600))[0], g.Forecast(minuteAt(600))[0]
	if a.Total[0].Minute != b.Total[0].Minute || a.Total[0].WindowMax != b.Total[0].WindowMax {
		t.Error("earlier calls of Forecast changed the forecast")
	}
}

// restoredOf stores a forecaster and restores it.
func restoredOf(t *testing.T, f *Forecaster) *Forecaster {
	t.Helper()
	g, err := Restore(f.cfg, cbor.NewDecoder(bytes.NewReader(bytesOf(t, f))).Decode)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func bytesOf(t *testing.T, f *Forecaster) []byte {
	t.Helper()
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Parts(mode.NewEncoder(&b).Encode); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestShown: the first classes of a pool are shown at once, and the largest from the next ranking on.
func TestShown(t *testing.T) {
	f := New(Config{Shown: 1})
	for i := range 5 {
		small, large := window("p", "a", i, 1), window("p", "b", i, 1)
		small.PromptTokens, large.PromptTokens = 10, 1000
		f.Observe([]features.Window{small, large}, []features.PoolMinute{{Pool: "p", Start: minuteAt(i)}})
		const want = "b"
		f.Forecast(minuteAt(i + 1))
		for _, class := range []string{"a", "b", "c"} {
			if got := f.Shown(features.Key{Pool: "p", Class: class}); got != (class == want) {
				t.Fatalf("minute %d: class %s is shown: %v", i, class, got)
			}
		}
	}
	if f.Shown(features.Key{Pool: "q", Class: "a"}) {
		t.Error("a class of an unknown pool is shown")
	}
}

// TestDropFractions: fewer than half a request a minute is no demand, unless one runs.
func TestDropFractions(t *testing.T) {
	for name, c := range map[string]struct{ now, requests, want float64 }{ // tokens, requests a minute, tokens
		"night":               {0, .001, 0},
		"unknown minute":      {math.NaN(), .001, 0},
		"a request comes":     {0, .6, 50},
		"a long request runs": {24_000, .001, 50},
	} {
		pf := PoolForecast{Total: []Forecast{{Dimension: features.DimRequests}, {Dimension: features.DimKV, Now: features.Estimate{Mean: c.now}}}}
		requests, kv := &pf.Total[0], &pf.Total[1]
		for l := range Levels {
			requests.Minute[9][l], kv.Minute[9][l] = c.requests/60, 50
			requests.WindowMax[l], kv.WindowMax[l] = c.requests/60, 50
		}
		pf.dropFractions()
		if kv.Minute[9].At(.5) != c.want || kv.WindowMax.At(.5) != c.want {
			t.Errorf("%s: %v, %v", name, kv.Minute[9], kv.WindowMax)
		}
	}
}
