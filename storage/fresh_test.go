package storage

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/pipeline"
)

// TestFreshMinutes: PromQL also reads minutes that have not settled yet, with their expected values and under the same
// names. Reports read only settled minutes.
func TestFreshMinutes(t *testing.T) {
	s := openStore(t, config(t.TempDir()))
	s.Shown = func(key features.Key) bool { return key.Class == "chat" }
	open := func(class string, m int, counted, expected float64) features.Window {
		w := window(class, m, 60*counted)
		w.Settled, w.Nowcast = false, slices.Repeat([]features.Estimate{{Mean: math.NaN()}}, 4)
		w.Nowcast[0] = features.Estimate{Mean: expected, Counted: counted}
		return w
	}
	tick := func(m int, windows ...features.Window) {
		t.Helper()
		if err := s.Append(&pipeline.Output{Tick: minute(m), Windows: windows}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(q promstorage.Queryable, matchers ...*labels.Matcher) map[string][]string {
		t.Helper()
		name := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "forewarm_demand_requests_per_second")
		return samplesOf(t, q, append(matchers, name)...)
	}
	of := func(class string) string {
		return `{__name__="forewarm_demand_requests_per_second", class="` + class + `", pool="p"}`
	}
	tick(1, open("chat", 0, 1, 4), open("rag", 0, 2, 2))
	tick(2, open("chat", 0, 3, 5), open("chat", 1, 1, 6), open("rag", 1, 1, 1))
	want := map[string][]string{of("chat"): {"1=5", "2=6"}, of("_other"): {"1=2", "2=1"}, of("*"): {"1=7", "2=7"}}
	if diff := cmp.Diff(want, read(s.Queryable())); diff != "" {
		t.Errorf("no minute has settled (-want +got):\n%s", diff)
	}
	total := map[string]string{"pool": "p", "class": "*"}
	got, err := History{Series: s.Queryable()}.Values(t.Context(), "forewarm_demand_requests_per_second", total, minute(0), minute(3))
	if err != nil || len(got) != 3 || got[0] != 7 || got[1] != 7 || !math.IsNaN(got[2]) {
		t.Errorf("the page reads %v, %v", got, err)
	}
	tick(3, window("chat", 0, 360), window("rag", 0, 60), open("chat", 2, 1, 6))
	want = map[string][]string{of("*"): {"1=7", "2=7", "3=6"}}
	if diff := cmp.Diff(want, read(s.Queryable(), labels.MustNewMatcher(labels.MatchEqual, "class", "*"))); diff != "" {
		t.Errorf("one minute has settled (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{of("chat"): {"1=6"}, of("_other"): {"1=1"}, of("*"): {"1=7"}}, read(s)); diff != "" {
		t.Errorf("reports read (-want +got):\n%s", diff)
	}
	restored := openStore(t, config(t.TempDir()))
	restored.Restore(minute(2), []features.Window{open("chat", 1, 1, 6)})
	if diff := cmp.Diff(map[string][]string{of("chat"): {"2=6"}, of("*"): {"2=6"}}, read(restored.Queryable())); diff != "" {
		t.Errorf("after a start (-want +got):\n%s", diff)
	}
	s.fresh.take(nil, minute(200).Add(time.Hour).UnixMilli(), s.owns)
	if len(s.fresh.minutes) > 0 {
		t.Errorf("%d old minutes are kept, want none", len(s.fresh.minutes))
	}
}
