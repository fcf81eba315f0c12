package server

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
)

func TestActualPathBreaksWhereNothingIsKnown(t *testing.T) {
	at := func(minute int, v float64) Point { return Point{origin.Add(time.Duration(minute) * time.Minute), v} }
	points := []Point{at(-200, 9), at(-10, 1), at(-9, 1), at(-7, 1), at(-6, math.NaN()), at(-5, 1)}
	got := actualPath(points, origin, func(v float64) float64 { return v })
	if n := strings.Count(got, "M"); n != 3 {
		t.Errorf("%d strokes in %q, want 3: a missing minute and an unknown one are gaps, and the old point is left out", n, got)
	}
}

func TestCapacityGrowsWhenPendingReplicasAreReady(t *testing.T) {
	p := fullReader().pools[1]
	f := p.total(features.DimKV)
	got := capacityAhead(&p, f) // one pending since 3 minutes, lead 13 minutes
	if got[9] != 500_000 || got[10] != 600_000 {
		t.Errorf("capacity at minutes 9 and 10: %g, %g; want 500000, 600000", got[9], got[10])
	}
	p.Projection.Reserve = 2
	if got := capacityAhead(&p, f); got[9] != 300_000 {
		t.Errorf("capacity at minute 9 with two replicas kept for failures: %g, want 300000", got[9])
	}
	p.Projection.Reserve = 0
	if c := capacityAhead(&p, p.total(features.DimRequests)); c != nil {
		t.Errorf("capacity of a dimension without one: %v", c)
	}
}

func TestCapacityFarAboveIsNoted(t *testing.T) {
	p := fullReader().pools[1]
	p.Projection.Resources[0].PerReplica = 1e9
	c := newChart(&p, p.total(features.DimKV))
	if c.Limit != "" || c.LimitNote != "capacity 5G, above the picture" {
		t.Errorf("limit %q, note %q", c.Limit, c.LimitNote)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 999: "999", 1234: "1.23k", 5e6: "5M", 2.5e10: "25G", -4000: "-4k"} {
		if got := si(v); got != want {
			t.Errorf("si(%g) = %q, want %q", v, got, want)
		}
	}
	var ceils []float64
	for _, v := range []float64{0, math.NaN(), 1, 1.1, 2.2, 4, 6, 73} {
		ceils = append(ceils, niceCeil(v))
	}
	if diff := cmp.Diff([]float64{1, 1, 1, 2, 2.5, 5, 10, 100}, ceils); diff != "" {
		t.Errorf("niceCeil (-want +got):\n%s", diff)
	}
}
