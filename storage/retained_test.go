package storage

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// tokensOf is a settled window of a class with so many prompt tokens, of a request each.
func tokensOf(class string, m int, tokens float64) features.Window {
	w := window(class, m, tokens)
	w.PromptTokens, w.PromptKnown = tokens, tokens
	return w
}

// TestLightClassesAreKeptTogether: the heaviest classes have series of their own, also of their forecasts; of the others
// and of what features has pooled already there is the sum, with what came late, and the pool's total is of all.
func TestLightClassesAreKeptTogether(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.MaxClasses = 2
	s := openStore(t, cfg)
	windows := []features.Window{
		tokensOf("_other", 0, 3000), tokensOf("a", 0, 60), tokensOf("b", 0, 600), tokensOf("c", 0, 120), tokensOf("d", 0, 1200),
	}
	windows[1].Late, windows[3].Late = &features.Late{Records: 2}, &features.Late{Records: 3}
	forecasts := forecaster.PoolForecast{Pool: "p", Total: []forecaster.Forecast{forecast("*", 1)}}
	for _, class := range []string{"_other", "a", "b"} {
		forecasts.Classes = append(forecasts.Classes, forecast(class, 1))
	}
	if err := s.Append(minute(1), windows, []forecaster.PoolForecast{forecasts}, nil); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for class, perSecond := range map[string]string{"*": "83", "_other": "53", "b": "10", "d": "20"} {
		want[fmt.Sprintf(`{__name__="forewarm_demand_requests_per_second", class=%q, pool="p"}`, class)] = []string{"1=" + perSecond}
	}
	want[`{__name__="forewarm_late_records", class="_other", pool="p"}`] = []string{"1=5"}
	if diff := cmp.Diff(want, dump(t, s, "forewarm_demand_requests_per_second|forewarm_late_records")); diff != "" {
		t.Error(diff)
	}
	if n := len(dump(t, s, ForecastSeries)); n != 2*5*forecaster.NumLevels {
		t.Errorf("%d forecast series, want those of the total and one class", n)
	}
	if c := s.Counters(); c.Capped != 0 {
		t.Errorf("%+v", c)
	}
}

// TestPlacesChangeSeldom: a class takes the place of a lighter one within the hour when it is clearly heavier, one that is
// only heavier does not; who falls silent makes room; and after a restart those have a place that had one.
func TestPlacesChangeSeldom(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.MaxClasses = 2
	s := openStore(t, cfg)
	tick := func(m int, tokens map[string]float64) string {
		t.Helper()
		var windows []features.Window
		for _, class := range []string{"a", "b", "c"} {
			if tokens[class] > 0 {
				windows = append(windows, tokensOf(class, m-1, tokens[class]))
			}
		}
		if err := s.Append(minute(m), windows, nil, nil); err != nil {
			t.Fatal(err)
		}
		own := ""
		for _, class := range []string{"a", "b", "c"} {
			if x := s.retained.classes[features.Key{Pool: "p", Class: class}]; x != nil && x.own {
				own += class
			}
		}
		return own
	}
	m := 0
	play := func(minutes int, tokens map[string]float64) (own string) {
		for range minutes {
			m++
			own = tick(m, tokens)
		}
		return own
	}
	if own := play(90, map[string]float64{"a": 100, "b": 1000, "c": 110}); own != "bc" {
		t.Errorf("at first %s have a place, want bc", own)
	}
	if own := play(180, map[string]float64{"a": 190, "b": 1000, "c": 110}); own != "bc" {
		t.Errorf("%s have a place when a is a little heavier, want bc", own)
	}
	if own := play(180, map[string]float64{"a": 1000, "b": 1000, "c": 110}); own != "ab" {
		t.Errorf("%s have a place when a is clearly heavier, want ab", own)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, cfg)
	if own := play(1, map[string]float64{"a": 1, "b": 1, "c": 9000}); own != "ab" {
		t.Errorf("%s have a place after a restart, want ab", own)
	}
	if own := play(int(activeFor/time.Minute)+61, map[string]float64{"a": 1000, "c": 10}); own != "ac" {
		t.Errorf("%s have a place when b is silent, want ac", own)
	}
}
