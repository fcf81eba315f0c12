package forecaster

import (
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
)

type fixedCapacity map[string]float64

func (c fixedCapacity) PerReplica(d string, _ float64) (float64, bool) { v, ok := c[d]; return v, ok }

func (fixedCapacity) Spread(string) (low, high float64) { return 1, 1 }

type fixedLag time.Duration

func (l fixedLag) Quantile(float64) time.Duration { return time.Duration(l) }

func (l fixedLag) ReadyBy(requested, _, t time.Time) float64 {
	if t.Sub(requested) >= time.Duration(l) {
		return 1
	}
	return 0
}

// ramp is a forecast whose paths grow from level by step a minute, path j faster by j/1000. So the quantiles of the
// times at which they pass a capacity are known.
func ramp(dimension string, level, step float64) PoolForecast {
	pf := PoolForecast{Pool: "p", Origin: minuteAt(0)}
	pf.Total = []Forecast{{Key: features.Key{Pool: "p", Class: features.TotalClass}, Dimension: dimension, Last: level, Now: features.Estimate{Mean: level}, Confidence: Seasonal}}
	pf.Total[0].Paths = make([][Horizon]float32, NumPaths)
	for j := range NumPaths {
		for h := range Horizon {
			pf.Total[0].Paths[j][h] = float32(level + step*float64(h+1)*(1+float64(j)/1000))
		}
	}
	return pf
}

func TestProjectRamp(t *testing.T) {
	// Path j passes 1000 at minute ⌈20/(1 + j/1000)⌉ or the next: 18 for the fastest tenth, 20 for the slowest.
	pf := ramp("kv", 800, 10)
	p := Project(&pf, fixedCapacity{"kv": 100}, fixedLag(10*time.Minute), Supply{Ready: 10}, 0, 30*time.Minute, nil)
	if p.Binding != "kv" || p.Lead != 11*time.Minute {
		t.Errorf("binding %q, lead %v", p.Binding, p.Lead)
	}
	if p.ETA != (ETA{17 * time.Minute, 18 * time.Minute, 19 * time.Minute}) {
		t.Errorf("ETA %v", p.ETA)
	}
	r := p.Resources[0]
	if p.Probability != 1 || r.Probability[Horizon-1] != 1 || r.Probability[10] != 0 {
		t.Errorf("probability %v, by minute %v", p.Probability, r.Probability)
	}
	if r.Utilisation != .8 {
		t.Errorf("utilisation %v", r.Utilisation)
	}
	if r.Headroom.P50 >= 0 || r.Headroom.P50 < -.2 {
		t.Errorf("headroom %+v", r.Headroom)
	}
}

// If engines hold half of the KV memory that requests add up to (shared prefixes), a replica holds twice as many
// requests.
func TestProjectKVRatio(t *testing.T) {
	for dimension, want := range map[string]float64{"kv": .4, "decode": .8} {
		pf := ramp(dimension, 800, 1)
		pf.Minute.KVRatio = .5
		p := Project(&pf, fixedCapacity{dimension: 100}, fixedLag(10*time.Minute), Supply{Ready: 10}, 0, 30*time.Minute, nil)
		if p.Resources[0].Utilisation != want || len(p.Warnings) != map[bool]int{true: 1}[want < .8] {
			t.Errorf("%s: utilisation %v, want %v; %q", dimension, p.Resources[0].Utilisation, want, p.Warnings)
		}
	}
}

// TestProjectPendingReplicas: starting replicas avert a saturation only if they are ready before it.
func TestProjectPendingReplicas(t *testing.T) {
	pf := ramp("decode", 800, 10)
	project := func(lag time.Duration, pending int) Projection {
		s := Supply{Ready: 10}
		for range pending {
			s.Pending = append(s.Pending, minuteAt(0))
		}
		return Project(&pf, fixedCapacity{"decode": 100}, fixedLag(lag), s, 0, Horizon*time.Minute, nil)
	}
	if p := project(10*time.Minute, 6); p.Probability != 0 || p.ETA.P10 != Never {
		t.Errorf("six more replicas ready in 10 min: P %v, ETA %v", p.Probability, p.ETA)
	}
	if p := project(40*time.Minute, 6); p.Probability != 1 {
		t.Errorf("six more replicas ready in 40 min: P %v", p.Probability)
	}
}

// TestProjectAfterFailure: probabilities and headroom count all replicas. Those after a failure are values of their
// own. Without a replica headroom is unknown.
func TestProjectAfterFailure(t *testing.T) {
	pf := ramp("kv", 850, 0)
	with := Project(&pf, fixedCapacity{"kv": 100}, fixedLag(time.Minute), Supply{Ready: 10}, 2, Horizon*time.Minute, nil)
	left := Project(&pf, fixedCapacity{"kv": 100}, fixedLag(time.Minute), Supply{Ready: 8}, 0, Horizon*time.Minute, nil)
	if with.Probability != 0 || with.Resources[0].Headroom.P50 < .14 || left.Resources[0].AfterFailure != nil {
		t.Errorf("P %v with ten replicas, which suffice; headroom %v", with.Probability, with.Resources[0].Headroom)
	}
	want := left.Resources[0].Headroom
	if got := *with.Resources[0].AfterFailure; got != want || got.P50 >= 0 {
		t.Errorf("after a failure: %+v, want %+v", got, want)
	}
	none := Project(&pf, fixedCapacity{"kv": 100}, fixedLag(time.Minute), Supply{Ready: 1}, 1, Horizon*time.Minute, nil).Resources[0]
	if h := none.AfterFailure; !math.IsNaN(h.P10) || !math.IsNaN(h.P90) || math.IsNaN(none.Headroom.P10) {
		t.Errorf("headroom of no replica: %+v; of one %+v", h, none.Headroom)
	}
}

type uncertainCapacity struct {
	fixedCapacity
	low, high float64
}

func (c uncertainCapacity) Spread(string) (low, high float64) { return c.low, c.high }

// TestProjectUncertainCapacity: a demand of 95 % of the capacity saturates the share of the paths whose capacity is
// lower. A demand of 105 % does not saturate those whose capacity is higher.
func TestProjectUncertainCapacity(t *testing.T) {
	for _, tt := range []struct {
		demand, low, high, want float64
	}{{950, 1, 1, 0}, {950, .9, 1.1, .5 - .45*.5}, {1050, .9, 1.1, .5 + .45*.5}, {1050, .9, 1, 1}, {800, .9, 1.3, 0}, {999, .001, 1, .5}} {
		pf := ramp("kv", tt.demand, 0)
		p := Project(&pf, uncertainCapacity{fixedCapacity{"kv": 100}, tt.low, tt.high}, fixedLag(time.Minute), Supply{Ready: 10}, 0, 30*time.Minute, nil)
		if math.Abs(p.Probability-tt.want) > .01 || p.Resources[0].Utilisation != tt.demand/1000 {
			t.Errorf("%g with a capacity of 1000 × %g to %g: P %v, want %v; utilisation %v", tt.demand, tt.low, tt.high, p.Probability, tt.want, p.Resources[0].Utilisation)
		}
	}
}

// The binding resource is the one nearest to its capacity.
func TestProjectBinding(t *testing.T) {
	pf := ramp("kv", 500, 0)
	other := ramp("decode", 900, 0)
	pf.Total = append(pf.Total, other.Total...)
	p := Project(&pf, fixedCapacity{"kv": 100, "decode": 100}, fixedLag(time.Minute), Supply{Ready: 10}, 0, 30*time.Minute, nil)
	if p.Binding != "decode" || p.Probability != 0 {
		t.Errorf("binding %q at P %v", p.Binding, p.Probability)
	}
}

// A resource without a known capacity is not projected. Without a replica, utilisation is unknown.
func TestProjectUnknownCapacity(t *testing.T) {
	pf := ramp("kv", 500, 0)
	if p := Project(&pf, fixedCapacity{}, fixedLag(time.Minute), Supply{Ready: 10}, 0, time.Hour, nil); p.Binding != "" || len(p.Resources) > 0 {
		t.Errorf("without any capacity: %+v", p)
	}
	p := Project(&pf, fixedCapacity{"kv": 100}, fixedLag(time.Minute), Supply{}, 0, time.Hour, nil)
	if p.Probability != 1 || p.ETA.P50 != 0 || !math.IsNaN(p.Resources[0].Utilisation) {
		t.Errorf("without any replica: P %v, ETA %v, utilisation %v", p.Probability, p.ETA, p.Resources[0].Utilisation)
	}
}

// slowLag is a warm-up of five minutes, but of an hour for a tenth of the replicas. So a replica that is not ready
// after five minutes takes an hour.
type slowLag struct{}

func (slowLag) Quantile(p float64) time.Duration {
	if p > .9 {
		return time.Hour
	}
	return 5 * time.Minute
}

func (slowLag) ReadyBy(requested, now, t time.Time) float64 {
	switch waited := now.Sub(requested); {
	case t.Sub(requested) >= time.Hour:
		return 1
	case waited >= 5*time.Minute || t.Sub(requested) < 5*time.Minute:
		return 0
	}
	return .9
}

// TestProjectOverdueReplica: a replica that is late is expected only when slow replicas are ready.
func TestProjectOverdueReplica(t *testing.T) {
	pf := ramp("kv", 1050, 0)
	p := Project(&pf, fixedCapacity{"kv": 100}, slowLag{}, Supply{Ready: 10, Pending: []time.Time{minuteAt(-20)}}, 0, 30*time.Minute, nil)
	if p.ETA.P50 != 0 || p.Resources[0].Headroom.P90 >= 0 {
		t.Errorf("ETA %v, headroom %+v", p.ETA, p.Resources[0].Headroom)
	}
	if f := readyPaths(pf.Origin, slowLag{}, Supply{Ready: 10, Pending: []time.Time{minuteAt(-20)}}, 0); f[0][20] != 10 || f[0][45] != 11 {
		t.Errorf("ready at minute 21: %v, at 46: %v", f[0][20], f[0][45])
	}
}
