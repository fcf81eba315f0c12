package forecaster

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
)

// TestBackfillAccuracy prints what a back-fill improves on a pool's first day, on public traces: the loss of minutes 15
// to 30, and of the largest of them, when the minutes before that day were back-filled, divided by the loss of a daemon
// that begins with the day. The day begins at a third of each trace, or at two thirds for FOREWARM_ACCURACY=check.
// Environment variables are those of TestAccuracy.
func TestBackfillAccuracy(t *testing.T) {
	part, dir := os.Getenv("FOREWARM_ACCURACY"), os.Getenv("FOREWARM_TRACES")
	if part == "" || dir == "" {
		t.Skip("set FOREWARM_ACCURACY to tune or check, and FOREWARM_TRACES, to score back-fills on traces")
	}
	const day, step = 24 * 60, 7
	third := 1
	if part == "check" {
		third = 2
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-46s%-9s%7s%24s%24s%24s\n", "trace", "", "days", "first hours 0–6", "6–12", "12–24")
	for _, s := range traceSeries(t, dir, os.Getenv("FOREWARM_ACCURACY_ONLY")) {
		first := len(s.y) * third / 3 / day * day
		if s.class != features.TotalClass || first < day || first+day > len(s.y) {
			continue
		}
		past := max(0, first-int(28*24*time.Hour/features.Minute))
		f, key := New(Config{}), features.Key{Pool: "p", Class: features.TotalClass}
		if err := f.Backfill("p", s.dim, time.Unix(60*(s.start+int64(past)), 0), s.y[past:first]); err != nil {
			t.Fatal(err)
		}
		d := slices.IndexFunc(features.Forecast, func(d features.Dimension) bool { return d.Name == s.dim })
		filled, cold := f.pool("p").total.series[d], newSeries(key, 0)
		var losses [3][2]reference // by part of the day: back-filled, cold
		for m := first; m < first+day-30; m++ {
			for k, x := range []*series{filled, cold} {
				x.push(s.start+int64(m), exact(s.y[m]))
				var issued Forecast
				if m%step == 0 && m-first >= minKnown && x.forecast(&issued) {
					losses[dayPart(m-first)][k].score(&issued, s.y[m+15:m+31])
				}
			}
		}
		fmt.Fprintf(&b, "%-46s%-9s%7.1f", s.trace, s.dim, float64(first-past)/day)
		for _, l := range losses {
			fmt.Fprintf(&b, "%12.2f, %8.2f", l[0].Minutes/l[1].Minutes, l[0].Peak/l[1].Peak)
		}
		b.WriteByte('\n')
	}
	t.Logf("loss after a back-fill over that without, minutes 15–30 and the largest of them:\n%s", b.String())
}

func dayPart(minute int) int {
	switch {
	case minute < 6*60:
		return 0
	case minute < 12*60:
		return 1
	}
	return 2
}

// score adds the loss of a forecast of 15 to 30 minutes ahead.
func (r *reference) score(f *Forecast, outcomes []float64) {
	most := slices.Max(outcomes)
	for _, level := range ScoredLevels {
		for h, y := range outcomes {
			r.Minutes += Pinball(Levels[level], y, f.Minute[14+h][level])
		}
		r.Peak += Pinball(Levels[level], most, f.WindowMax[level])
	}
}
