package backtest

import (
	"encoding/xml"
	"errors"
	"io"
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
		ScoreFrom: .4, PeakReplicas: 6, Decide: 5 * time.Minute,
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
