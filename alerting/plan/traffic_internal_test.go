package plan

import (
	"math"
	"testing"

	"github.com/forewarm/forewarm/features"
)

// TestRetriesAfterSums: minutes of sums, which say nothing of attempts, do not change the share of retries in the others.
func TestRetriesAfterSums(t *testing.T) {
	unknown := math.NaN()
	h := history{
		features.DimRequests: {100, 100, 10, 10}, features.DimRetry: {unknown, unknown, 5, 5}, features.DimServed: {unknown, unknown, 8, 8},
	}
	if again, twice := h.repeatedShares(); math.Abs(again-5./7) > 1e-9 || twice != 0 {
		t.Errorf("%g of failed attempts are repeated, %g twice, want 5 of 7 and none", again, twice)
	}
	h[features.DimRequests] = []float64{100, 100, 0, 0}
	if again, twice := h.repeatedShares(); again != 0 || twice != 0 {
		t.Errorf("without requests: %g, %g", again, twice)
	}
}
