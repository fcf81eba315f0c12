package backtest

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The page has every part, fetches nothing, and its drawings are well-formed and without numbers that are none.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	mustRun(t, RunConfig{
		Trace: writeTrace(t, 5*time.Hour), Report: path, Policies: []string{"forewarm", "reactive_floor", "static_peak", "oracle"}, Sweep: true,
		ScoreFrom: .4, PeakReplicas: 6,
	})
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, part := range []string{"At equal saturation", "<h2>Policies", "Replicas and demand", "Alarms", "Forecasts of the pool", "reactive_floor", "Gap to the oracle"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if bad := regexp.MustCompile(`(?i)\b(src|href)=|url\(|@import|<script|NaN|Inf\b|%!|<no value>`).FindString(text); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	svgs := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)
	if len(svgs) < 5 {
		t.Errorf("%d drawings, want the forecast and one track a policy", len(svgs))
	}
	for _, svg := range svgs {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %.200s", err, svg)
			}
		}
	}
	// Without a sweep, and without Forewarm among the policies, there is still a page.
	mustRun(t, RunConfig{Trace: writeTrace(t, time.Hour), Report: path, Policies: []string{"static_peak"}})
	if raw, err = os.ReadFile(path); err != nil || !strings.Contains(string(raw), "static_peak") {
		t.Errorf("%v: no page of a single policy", err)
	}
}

// TestTextWithoutFigures: what is unknown or not reached is a dash, not NaN or Inf. Without a saturation that begins, no
// share of warnings came true.
func TestTextWithoutFigures(t *testing.T) {
	nan, inf := Number(math.NaN()), Number(math.Inf(1))
	s := Summary{
		Alarms: &Alarms{Weeks: .01, Operating: AlarmPoint{Raised: 1, Precision: 1, Recall: nan}},
		Comparisons: []Comparison{{
			SaturatedShare: .01, Costs: []Cost{{Policy: "static_peak", GPUHours: inf, ReversedShare: nan}}, GapClosed: nan, SaturationRatio: inf,
		}},
	}
	for onsets, want := range map[int]string{0: "begin: none; warned of in time: –", 2: "begin: 2 in 0.01 weeks"} {
		var out strings.Builder
		s.Alarms.Onsets = onsets
		if err := s.WriteText(&out); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || !strings.Contains(text, "closed –;") || !strings.Contains(text, "at 1 % saturated") {
			t.Error(text)
		}
		if !strings.Contains(text, want) || strings.Contains(text, "came true: 100 %") != (onsets > 0) {
			t.Errorf("%d: %s", onsets, text)
		}
	}
}
