package features

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/ingest"
)

func from(tenant, feature string) func(*ingest.Request) {
	return func(r *ingest.Request) { r.Tenant, r.Feature = tenant, feature }
}

func TestRankings(t *testing.T) {
	a := New(testConfig())
	add := func(tenant, feature string, second float64, n int) {
		for range n {
			mustAdd(t, a, changed(request("", second), from(tenant, feature)))
		}
	}
	add("small", "search", 1, 1)
	add("big", "search", 2, 5)
	add("", "", 3, 50)
	add("middle", "", 4, 3)
	w, _ := a.Close(at(60))
	tenants := &Ranking{Top: []sketch.Count{{Name: "big", Weight: 600}, {Name: "middle", Weight: 360}, {Name: "small", Weight: 120}}, Total: 59 * 120}
	if diff := cmp.Diff(tenants, w[0].Tenants, about); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
	features := &Ranking{Top: []sketch.Count{{Name: "search", Weight: 720}}, Total: 59 * 120}
	if diff := cmp.Diff(features, w[0].Features, about); diff != "" {
		t.Errorf("features (-want +got):\n%s", diff)
	}
	for m := 2; m <= 31; m++ {
		w, _ = a.Close(at(float64(m) * 60))
	}
	if got := w[len(w)-1].Tenants.Top[0].Weight; got < 299 || got > 301 {
		t.Errorf("after half an hour a weight of 600 is %v, want 300", got)
	}
}

// Requests that name no tenant and no feature have no ranking.
func TestNoRanking(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, request("", 1))
	w, _ := a.Close(at(60))
	if w[0].Tenants != nil || w[0].Features != nil {
		t.Errorf("tenants %v, features %v of requests that name none", w[0].Tenants, w[0].Features)
	}
	if name, share, margin := w[0].Tenants.First(); name != "" || !math.IsNaN(share) || !math.IsNaN(margin) {
		t.Errorf("the first of no ranking is %q with %v ± %v", name, share, margin)
	}
}

// With many more tenants than counters, the error of a share is at most its margin.
func TestMarginOfRanking(t *testing.T) {
	a := New(testConfig())
	const n = 2000
	for i := range n {
		tenant := fmt.Sprint("t", i)
		if i%3 == 0 {
			tenant = "large"
		}
		mustAdd(t, a, changed(request("", 1+float64(i)/50), from(tenant, "")))
	}
	w, _ := a.Close(at(60))
	name, share, margin := w[0].Tenants.First()
	truth := math.Ceil(n/3.0) / n
	if name != "large" || margin > 1.0/80/2 || math.Abs(share-truth) > margin+1e-9 {
		t.Errorf("%s with %.4f ± %.4f, want large with %.4f", name, share, margin, truth)
	}
	if r := w[0].Tenants; r.Top[0].Error > r.Floor || r.Floor > r.Total/80 {
		t.Errorf("error %v, floor %v, want at most 1/80 of %v", r.Top[0].Error, r.Floor, r.Total)
	}
}
