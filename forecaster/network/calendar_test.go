package network

import (
	"math"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/forewarm/forewarm/forecaster/model"
)

// TestSeasonsInLocalTime: traffic follows the local clock. At noon after the clock changed, and two days later, the
// features of seasons are those of the same traffic without a change.
func TestSeasonsInLocalTime(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	local := func(m int64) int64 {
		_, offset := time.Unix(60*m, 0).In(zone).Zone()
		return m + int64(offset/60)
	}
	rate := func(local int64) float64 { return 40 + 30*math.Sin(2*math.Pi*float64(local%1440)/1440) }
	seasons := func(h *model.History) (x [NumFeatures]float32) {
		f := filler{v: &view{h: h, level: 6, spread: 1}, x: &x}
		f.seasons()
		return x
	}
	for _, noon := range []time.Time{
		time.Date(2026, 3, 29, 12, 0, 0, 0, zone), time.Date(2026, 3, 31, 12, 0, 0, 0, zone),
		time.Date(2026, 10, 25, 12, 0, 0, 0, zone), time.Date(2026, 10, 27, 12, 0, 0, 0, zone),
	} {
		newest := noon.Unix() / 60
		changing, steady := model.NewHistory(), model.NewHistory()
		changing.Zone = zone
		for m := newest - 10*1440; m <= newest; m++ {
			changing.Push(m, rate(local(m)))
			changing.Settle(m)
			same := local(newest) - newest + m
			steady.Push(same, rate(same))
			steady.Settle(same)
		}
		got, want := seasons(changing), seasons(steady)
		for i := range got {
			bound := 1e-3
			if i >= 15 && i < 15+4*model.NumRepeats {
				bound = .05 // averages over days, which include the hour that was skipped or came twice
			}
			if math.Abs(float64(got[i]-want[i])) > bound {
				t.Errorf("%v: season %d is %v, want %v", noon, i, got[i], want[i])
			}
		}
	}
}
