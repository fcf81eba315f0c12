package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/forewarm/forewarm/features"
)

// A nowcast above zero does not end a silence if nothing was counted. A count does, also if it comes late.
func TestNowcastInSilence(t *testing.T) {
	s := newSeries(testKey, 10)
	for i := range 40 {
		s.push(startMinute+int64(i), features.Estimate{Mean: .01})
	}
	if s.stage() != 1 {
		t.Error("the series is not silent although nothing was counted")
	}
	s.amend(s.history.Newest-3, exact(1))
	if s.stage() != 0 {
		t.Error("the series is silent after a late record")
	}
}

// When a burst follows silence, upper quantiles rise before its minutes have settled.
func TestBurstAfterSilence(t *testing.T) {
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
		t.Errorf("in a burst of 100 the forecast for 15 minutes ahead is %v", q)
	}
}

// If the share of records that come late varies, forecasts from nowcasts are better than forecasts from first counts.
func TestForecastFromNowcast(t *testing.T) {
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
			if now := issued[i].Now; nowcast && i > 10 && now != s.newest {
				t.Fatalf("minute %d: demand now %+v, nowcast %+v", i, now, s.newest)
			}
		}
		return loss
	}
	if first, now := loss(false), loss(true); now > .95*first {
		t.Errorf("pinball %.0f from nowcasts, %.0f from first counts", now, first)
	}
}
