package forecaster

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// On public traces of an hour, the loss is at most that of the last value with the quantiles of its own errors so far,
// from 20 errors on. The 95 % interval is printed. Skipped unless FOREWARM_TRACES names the traces' directory.
func TestFirstHour(t *testing.T) {
	dir := os.Getenv("FOREWARM_TRACES")
	if dir == "" {
		t.Skip("set FOREWARM_TRACES to the directory of the traces")
	}
	for _, tr := range accuracyTraces {
		if tr.file != "azure2023_conv_1h.csv.gz" && tr.file != "mooncake_conversation_1h.csv.gz" {
			continue
		}
		for _, ts := range readTrace(t, dir+"/"+tr.file, tr) {
			y, s := ts.y[ts.first:], newSeries(testKey, 0)
			minutes := make([][2]float64, len(y)) // the losses of each minute: own, of the last value
			own, last := 0.0, 0.0
			for m := range y {
				minute := ts.start + int64(ts.first+m)
				s.push(minute, exact(y[m]))
				f := Forecast{Origin: minuteAt(int(minute + 1 - startMinute))}
				if !s.forecast(&f) {
					continue
				}
				for h := 1; h <= Horizon && m+h < len(y); h++ {
					errors := lastErrors(y[:m+1], h)
					if len(errors) < 20 {
						break
					}
					q := quantilesOf(errors)
					for k, i := range ScoredLevels {
						minutes[m+h][0] += Pinball(Levels[i], y[m+h], f.Minute[h-1][i])
						minutes[m+h][1] += Pinball(Levels[i], y[m+h], max(0, y[m]+q[k]))
					}
				}
			}
			for _, x := range minutes {
				own, last = own+x[0], last+x[1]
			}
			low, high := ratioInterval(minutes)
			t.Logf("%s %s %s: pinball %.3f of the last value's (95 %%: %.2f to %.2f)", ts.trace, ts.class, ts.dim, own/last, low, high)
			if own > last {
				t.Errorf("%s %s %s: pinball is %.3f times that of the last value", ts.trace, ts.class, ts.dim, own/last)
			}
		}
	}
}

// lastErrors are the errors of the last value as a forecast.
func lastErrors(y []float64, ahead int) (errors []float64) {
	for m := range len(y) - ahead {
		errors = append(errors, y[m+ahead]-y[m])
	}
	return errors
}

// ratioInterval is the 95 % interval of the ratio of two sums over minutes, by a bootstrap of moving blocks (Künsch
// 1989, doi:10.1214/aos/1176347265) of five minutes.
func ratioInterval(minutes [][2]float64) (low, high float64) {
	const block, draws = 5, 1000
	r := rand.New(rand.NewPCG(1, 2))
	var ratios []float64
	for range draws {
		var sum [2]float64
		for range len(minutes) / block {
			from := r.IntN(len(minutes) - block + 1)
			for _, m := range minutes[from : from+block] {
				sum[0], sum[1] = sum[0]+m[0], sum[1]+m[1]
			}
		}
		ratios = append(ratios, sum[0]/sum[1])
	}
	slices.Sort(ratios)
	return ratios[draws/40], ratios[draws*39/40]
}
