package server

import (
	"context"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

func TestReplicasGrowWhenPendingOnesAreReady(t *testing.T) {
	p := fullReader().pools[1]
	got := readyAhead(p.Projection, p.Forecast.Origin) // one replica is pending for 3 minutes, and the lead time is 13 minutes
	if got[9] != 5 || got[10] != 6 {
		t.Errorf("ready replicas at minutes 9 and 10: %d, %d; want 5, 6", got[9], got[10])
	}
	if c := stepsAhead(&p, p.Forecast.Of(features.DimRequests)); c != nil {
		t.Errorf("replicas of a dimension without capacity: %v", c)
	}
}

// chatHistory is the history of pool chat: two hours of 300,000 tokens, four replicas until half an hour ago and five
// since then, a forecast from an hour ago, and an alert.
type chatHistory struct{}

func (chatHistory) Values(_ context.Context, series string, labels map[string]string, from, to time.Time) ([]float64, error) {
	if labels["pool"] != "chat" || series == "forewarm_itl_seconds" {
		return nil, nil
	}
	return slices.Repeat([]float64{300_000}, int(to.Sub(from)/time.Minute)), nil
}

func (chatHistory) Forecast(_ context.Context, key features.Key, dimension string, from, at time.Time) (*forecaster.Forecast, error) {
	made := origin.Add(-time.Hour)
	if at.Before(made) || from.After(made) {
		return nil, nil
	}
	f := ramp(key.Pool, key.Class, dimension, 290_000)
	f.Origin = made
	for h := range f.Minute {
		if h%15 != 14 {
			for i := range f.Minute[h] {
				f.Minute[h][i] = math.NaN()
			}
		}
	}
	return &f, nil
}

func (chatHistory) PoolDecisions(_ context.Context, pool string, from, to time.Time) (all []alerting.Decision, _ error) {
	for m := -120; m <= 0; m++ {
		d := *fullOutput().Pools[1].Decision
		d.Pool, d.Tick, d.Ready, d.Pending, d.Desired, d.Publish = pool, origin.Add(time.Duration(m)*time.Minute), 4, 0, 4, m == -40 || m == -50
		d.ByRole = &alerting.Roles{Prefill: 2}
		if m >= -50 {
			d.ByRole.Prefill = 3
		}
		if m >= -40 {
			d.Pending, d.Desired = 1, 5
		}
		if m >= -30 {
			d.Ready, d.Pending = 5, 0
		}
		d.Resources[0].Retries = &alerting.Retried{Factor: 1.1}
		if !d.Tick.Before(from) && d.Tick.Before(to) {
			all = append(all, d)
		}
	}
	return all, nil
}

func (chatHistory) Alerts(context.Context, string) ([]alerting.Alert, error) {
	return fullOutput().Alerts[:1], nil
}

func timelineOf(t *testing.T, query string) *timelineJSON {
	t.Helper()
	r := fullReader()
	s := newTestServer(r)
	s.History = chatHistory{}
	return must(s.timeline(httptest.NewRequest("GET", "/?"+query, nil), &r.pools[1]))
}

// TestTimeline: the load includes retries, the capacity has steps in past and future, and events are marked.
func TestTimeline(t *testing.T) {
	x := timelineOf(t, "resource=kv")
	if x.Past || !x.At.Equal(origin) || len(x.Actual) != 180 || math.Abs(float64(x.Actual[100].Value)-330_000) > 1e-6 {
		t.Errorf("at %s, %d minutes, %v", x.At, len(x.Actual), x.Actual[100])
	}
	var got []float64
	for _, s := range x.Steps {
		got = append(got, float64(s.Capacity))
	}
	if want := []float64{400_000, 400_000, 500_000, 500_000, 600_000}; !slices.Equal(got, want) || !x.Steps[4].Ahead || x.Steps[2].Ahead {
		t.Errorf("capacity %v, want %v", got, want)
	}
	var marks []string
	for _, m := range x.Marks {
		marks = append(marks, m.At.Sub(origin).String()+" "+m.Kind)
	}
	if want := []string{"-50m0s scale_out", "-40m0s scale_out", "-1m0s warning"}; !slices.Equal(marks, want) {
		t.Errorf("marks %q, want %q", marks, want)
	}
	if len(x.Forecast) != forecaster.Horizon || x.Decision == nil || x.Decision.LeadTime != 13*60 {
		t.Errorf("%d minutes ahead, decision %+v", len(x.Forecast), x.Decision)
	}
}

// TestTimelineAsSeen: for a time in the past, the timeline has the forecast and decision of that time, and the load
// until now.
func TestTimelineAsSeen(t *testing.T) {
	x := timelineOf(t, "resource=kv&at="+origin.Add(-55*time.Minute).Format(time.RFC3339))
	if !x.Past || len(x.Forecast) != 4 || x.Decision == nil || x.Decision.DesiredReplicas != 4 {
		t.Fatalf("past %v, %d minutes, decision %+v", x.Past, len(x.Forecast), x.Decision)
	}
	if last := x.Actual[len(x.Actual)-1].At; !last.Equal(origin.Add(-time.Minute)) {
		t.Errorf("the load ends at %s, want the last minute", last)
	}
	if x := timelineOf(t, "resource=kv&at="+origin.Add(-90*time.Minute).Format(time.RFC3339)); len(x.Forecast) != 0 {
		t.Errorf("a forecast of %d minutes, but none is stored", len(x.Forecast))
	}
}

// TestCharts: no chart contains NaN or infinite values. A capacity far above the load is not drawn, but in the note.
func TestCharts(t *testing.T) {
	x := timelineOf(t, "resource=kv")
	for _, f := range []*figure{loadChart(x), replicaChart(x)} {
		if text := string(f.SVG); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || !strings.Contains(text, "<path") {
			t.Errorf("%s: %s", f.Title, text)
		}
	}
	for i := range x.Steps {
		x.Steps[i].Capacity = 1e9
	}
	if f := loadChart(x); strings.Contains(string(f.SVG), `class="limit`) || f.Note != "The capacity (1G tokens) is above the picture." {
		t.Errorf("note %q, %s", f.Note, f.SVG)
	}
}
