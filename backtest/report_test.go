package backtest

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestReport: the page has every part and loads nothing. Its drawings are well-formed, and no number is NaN or
// infinite.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	mustRun(t, RunConfig{
		Trace: writeTrace(t, 5*time.Hour), Report: path, Policies: []string{"forewarm", "reactive_floor", "static_peak", "oracle"}, Sweep: true,
		ScoreFrom: .4, PeakReplicas: 6,
	})
	text := read(t, path)
	for _, part := range []string{"At equal saturation", "<h2>Policies", "Replicas and demand", "Alarms", "Forecasts of the pool", "reactive_floor", "Gap to the oracle"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page has no %q", part)
		}
	}
	if bad := regexp.MustCompile(`(?i)\b(src|href)=|url\(|@import|<script|NaN|Inf\b|%!|<no value>`).FindString(text); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	svgs := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)
	if len(svgs) < 5 {
		t.Errorf("%d drawings, want one of the forecast and one of each policy", len(svgs))
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
	// There is a page too without a sweep, and without Forewarm among the policies.
	mustRun(t, RunConfig{Trace: writeTrace(t, time.Hour), Report: path, Policies: []string{"static_peak"}})
	if !strings.Contains(read(t, path), "static_peak") {
		t.Error("the page of a single policy has no static_peak")
	}
}

// TestUnknownDemandIsNotDrawn: the band of demand has a hole where no minute of a bin is known.
func TestUnknownDemandIsNotDrawn(t *testing.T) {
	nan := float32(math.NaN())
	var track []trackMinute
	for i := range 2 * 5 * trackBins { // ten minutes in a bin
		need := float32(2)
		if i%10 == 0 || i >= 3000 && i < 3100 {
			need = nan
		}
		track = append(track, trackMinute{need: need, ready: 3, asked: 3})
	}
	bands := regexp.MustCompile(`class="need" d="([^"]*)"`).FindStringSubmatch(string(drawTrack(track, DefaultStart)))
	if len(bands) != 2 || strings.Count(bands[1], "Z") != 2 {
		t.Errorf("%.100q: want two areas of demand", bands)
	}
}

// TestUnknownFigures: what is unknown or not reached is a dash, not NaN or Inf. Without saturations, the text has no
// share of warnings that came true.
func TestUnknownFigures(t *testing.T) {
	nan, inf := Number(math.NaN()), Number(math.Inf(1))
	s := Summary{
		Alarms: &Alarms{Weeks: .01, Operating: AlarmPoint{Raised: 1, Precision: 1, Recall: nan}},
		Comparisons: []Comparison{{
			SaturatedShare: .01, Costs: []Cost{{Policy: "static_peak", GPUHours: inf, Tuned: Result{ReversedShare: nan}}}, GapClosed: nan, SaturationRatio: inf,
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
			t.Errorf("%d saturations: %s", onsets, text)
		}
	}
}
