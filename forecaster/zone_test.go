package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/forewarm/forewarm/features"
)

// Demand follows the local clock. On the day after the clock changes, forecasts with the time zone are much better than
// those by UTC.
func TestSeasonInLocalTime(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const days = 4
	for _, change := range []time.Time{time.Date(2026, 3, 29, 0, 0, 0, 0, zone), time.Date(2026, 10, 25, 0, 0, 0, 0, zone)} {
		first := change.AddDate(0, 0, 1-days).Unix() / 60
		loss := func(clock *time.Location) (sum float64) {
			r := rand.New(rand.NewPCG(41, 42))
			s := newSeries(testKey, 0)
			s.history.Zone = clock
			var y [days * 1440]float64
			var issued [days * 1440]Quantiles
			for i := range y {
				local := time.Unix((first+int64(i))*60, 0).In(zone)
				rate := 5.0
				if h := local.Hour(); h >= 8 && h < 18 {
					rate = 60
				}
				y[i] = math.Max(0, rate+math.Sqrt(rate)*r.NormFloat64())
				s.push(first+int64(i), exact(y[i]))
				if i < (days-1)*1440 || i%4 != 0 {
					continue
				}
				var f Forecast
				s.forecast(&f)
				issued[i] = f.Minute[19]
				if j := i - 20; j >= (days-1)*1440 {
					for _, level := range ScoredLevels {
						sum += Pinball(Levels[level], y[i], issued[j][level])
					}
				}
			}
			return sum
		}
		if local, utc := loss(zone), loss(nil); local > .7*utc {
			t.Errorf("after the change of %v pinball is %.0f by the local clock, %.0f by UTC", change, local, utc)
		}
	}
}

// Every series of a pool has the pool's time zone, also after a restart.
func TestZoneOfSeries(t *testing.T) {
	zone := time.FixedZone("east", 5*3600+1800)
	cfg := Config{Zone: func(pool string) *time.Location { return map[string]*time.Location{"p": zone}[pool] }}
	f := New(cfg)
	for i := range 20 {
		var ws []features.Window
		for _, pool := range []string{"p", "utc"} {
			ws = append(ws, window(pool, "a", i, 5), window(pool, "b", i, 1))
		}
		f.Observe(ws, nil)
	}
	g := restoredOf(t, f)
	for _, x := range []*Forecaster{f, g} {
		n := 0
		for _, p := range x.pools {
			for _, c := range p.all() {
				for _, s := range c.series {
					if s == nil {
						continue
					}
					n++
					if got, want := s.history.Zone, map[string]*time.Location{"p": zone}[p.Name]; got != want {
						t.Errorf("a series of pool %s has the time zone %v, want %v", p.Name, got, want)
					}
				}
			}
		}
		if n != 6 {
			t.Errorf("%d series, want 6: two classes and the total, of two pools", n)
		}
	}
}
