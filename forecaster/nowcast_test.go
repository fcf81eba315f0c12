package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/forewarm/forewarm/features"
)

// What a nowcast expects of silent minutes is no end of the silence; what was counted is, also when it comes late.
func TestNowcastIsNoEndOfSilence(t *testing.T) {
	s := newSeries(testKey, 10)
	for i := range 40 {
		s.push(startMinute+int64(i), features.Estimate{Mean: .01})
	}
	if s.stage() != 1 {
		t.Error("not silent, but nothing was counted")
	}
	late := exact(1)
	s.amend(s.history.Newest-3, late)
	if s.stage() != 0 {
		t.Error("silent in spite of a late record")
	}
}

// When a burst follows silence, forecasts widen with it though its minutes have not settled.
func TestBurstWidensBeforeItSettles(t *testing.T) {
	s := newSeries(testKey, 10)
	for i := range 60 {
		s.push(startMinute+int64(i), exact(0))
	}
	for i := range 5 {
		s.push(startMinute+60+int64(i), features.Estimate{Mean: 100, Counted: 50})
	}
	var f Forecast
	s.forecast(&f)
	if q := f.Minute[14]; !(q[L95] > 60) {
		t.Errorf("amid a burst of 100 the quarter of an hour ahead is %v", q)
	}
}

// Where the delay wanders, forecasts that start from nowcasts do better than those that start from first counts.
func TestNowcastsForecastBetter(t *testing.T) {
	const settle, n = 5, 2 * 1440
	loss := func(nowcast bool) (loss float64) {
		r := rand.New(rand.NewPCG(21, 22))
		s := newSeries(testKey, settle)
		level, share := 0.0, 0.0
		var truth [n]float64
		var issued [n]Forecast
		for i := range n {
			level = .99*level + .05*r.NormFloat64()
			share = .98*share + .1*r.NormFloat64()
			truth[i] = 1000 * math.Exp(level+.05*r.NormFloat64())
			e := features.Estimate{Mean: truth[i] / (1 + math.Exp(share)), Counted: 1}
			if nowcast {
				e.Mean = truth[i] * math.Exp(.1*r.NormFloat64())
			} else {
				r.NormFloat64()
			}
			s.push(startMinute+int64(i), e)
			if i > 0 {
				s.history.Amend(startMinute+int64(i-1), truth[i-1])
			}
			s.forecast(&issued[i])
			if j := i - 5; j >= n/2 {
				for _, level := range ScoredLevels {
					loss += Pinball(Levels[level], truth[i], issued[j].Minute[4][level])
				}
			}
			if now := issued[i].Now; nowcast && i > 10 && now != s.nowcast.Newest {
				t.Fatalf("minute %d: demand now %+v, nowcast %+v", i, now, s.nowcast.Newest)
			}
		}
		return loss
	}
	if first, now := loss(false), loss(true); now > .95*first {
		t.Errorf("pinball %.0f from nowcasts, %.0f from first counts", now, first)
	}
}
