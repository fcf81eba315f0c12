package forecaster

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Forecasts after a back-fill are the same as after observing these minutes, and better in the first hour than without.
func TestBackfill(t *testing.T) {
	const past, now = 2000, 60
	r := rand.New(rand.NewPCG(51, 52))
	y, values := noisy(r), make([]float64, past+now)
	for i := range values {
		values[i] = y(i)
	}
	observed, filled, cold := New(Config{}), New(Config{}), New(Config{})
	for i := range past {
		observed.Observe([]features.Window{window("p", "c", i, values[i])}, nil)
	}
	if err := filled.Backfill("p", features.DimRequests, minuteAt(0), values[:past]); err != nil {
		t.Fatal(err)
	}
	var loss [2]float64 // back-filled, cold
	for i := past; i < past+now; i++ {
		for _, f := range []*Forecaster{observed, filled, cold} {
			f.Observe([]features.Window{window("p", "c", i, values[i])}, []features.PoolMinute{{Pool: "p", Start: minuteAt(i), Covered: true}})
		}
		if i < past+minKnown-1 || i+20 >= past+now {
			continue
		}
		a, b, c := observed.Forecast(minuteAt(i + 1))[0], filled.Forecast(minuteAt(i + 1))[0], cold.Forecast(minuteAt(i + 1))[0]
		if a.Total[0].Minute != b.Total[0].Minute || a.Total[0].WindowMax != b.Total[0].WindowMax || b.Total[0].Known != i+1 {
			t.Fatalf("minute %d: the forecast is %v after a back-fill, %v after observation", i, b.Total[0].Minute[19], a.Total[0].Minute[19])
		}
		for k, f := range []*PoolForecast{&b, &c} {
			for _, level := range ScoredLevels {
				loss[k] += Pinball(Levels[level], values[i+20], f.Total[0].Minute[19][level])
			}
		}
	}
	if loss[0] > .9*loss[1] {
		t.Errorf("pinball of the first hour is %.0f after a back-fill, %.0f without", loss[0], loss[1])
	}
	if err := cold.Backfill("q", features.DimRequests, minuteAt(past), []float64{math.NaN(), math.NaN()}); err != nil {
		t.Fatal(err)
	}
	if err := filled.Backfill("p", features.DimRequests, minuteAt(past+now+30), []float64{5, 6}); err != nil {
		t.Errorf("a back-fill half an hour after the known minutes: %v", err)
	}
}

func TestBackfillRefuses(t *testing.T) {
	f := New(Config{})
	for i := range 10 {
		f.Observe([]features.Window{window("p", "c", i, 5)}, nil)
	}
	before := bytesOf(t, f)
	for _, tc := range []struct {
		dimension string
		start     time.Time
		values    []float64
		want      string
	}{
		{features.DimRequests, minuteAt(-100), make([]float64, 200), "overlaps the known minutes"},
		{features.DimRequests, minuteAt(9), []float64{1}, "overlaps the known minutes"},
		{features.DimRequests, minuteAt(-5), []float64{1}, "overlaps the known minutes"}, // older than the known minutes
		{features.DimRetry, minuteAt(20), []float64{1}, "is not forecast"},
		{features.DimPrefill, minuteAt(20).Add(time.Second), []float64{1}, "whole minute"},
	} {
		if err := f.Backfill("p", tc.dimension, tc.start, tc.values); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s from %v: error %v, want %q", tc.dimension, tc.start, err, tc.want)
		}
	}
	if string(bytesOf(t, f)) != string(before) {
		t.Error("a refused back-fill changed the state")
	}
}
