package features

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/ingest"
)

var producersConfig = Config{Lateness: 10 * time.Second, StaleAfter: 5 * Minute}

// addFinished adds a finished request of a replica, with the times at which it ended and was stored.
func addFinished(p *Producers, source, replica string, ended, stored float64) {
	r := changed(request("", ended-1), times(ended-1, ended-1, ended))
	r.ReplicaName = replica
	p.Begin(source, at(stored))
	p.Request(r, "")
}

func TestProducerBounds(t *testing.T) {
	p := NewProducers(producersConfig, true, nil)
	for i := range maxProducers + 10 {
		addFinished(p, "", fmt.Sprint("replica", i), float64(i), float64(i))
	}
	if len(p.ByName) != maxProducers || p.Refused != 10 {
		t.Errorf("%d producers, %d refused; want %d and 10", len(p.ByName), p.Refused, maxProducers)
	}
	p.Tick(at(2000+3601), nil)
	if len(p.ByName) != 0 {
		t.Errorf("%d producers are left after an hour of silence", len(p.ByName))
	}
}

// Records without an exact time can show that a clock is ahead, but not that it is behind.
func TestSkewOfInexactRecords(t *testing.T) {
	skew := func(delay float64, inexact bool) float64 {
		p := NewProducers(producersConfig, true, nil)
		for i := range 20 {
			r := request("", float64(i)) // an end without its time: the request may have run for long
			if !inexact {
				r = changed(r, phase(ingest.PhaseArrived))
			}
			p.Begin("gateway", at(float64(i)+delay))
			p.Request(r, "")
		}
		return float64(p.Tick(at(60), nil)[0].Skew)
	}
	for _, x := range []struct {
		delay   float64
		inexact bool
		want    float64
	}{{100, true, unknown}, {100, false, -100}, {-30, true, 30}, {-30, false, 30}, {-.3, false, 0}, {.1, false, 0}} {
		if got := skew(x.delay, x.inexact); got != x.want && !(math.IsNaN(got) && math.IsNaN(x.want)) {
			t.Errorf("delays of %v s, inexact %t: skew %v, want %v", x.delay, x.inexact, got, x.want)
		}
	}
}

// After a clock was corrected, its skew is zero within 20 minutes. Refused records, also with impossible times, count only
// when no other was accepted.
func TestSkewAfterCorrection(t *testing.T) {
	p := NewProducers(producersConfig, true, nil)
	for m := range 40 {
		ahead := 30.0
		if m >= 10 {
			ahead = 0
		}
		for i := range 30 {
			s := float64(m)*60 + float64(i)
			addFinished(p, "gateway", "", s+ahead, s)
		}
		skew := p.Tick(at(float64(m+1)*60), nil)[0].Skew
		if m < 10 && skew != 30 || m >= 31 && skew != 0 {
			t.Errorf("minute %d: skew %v", m, skew)
		}
	}
	r := request("", 0)
	r.FinishedAt = time.Date(292277, 1, 1, 0, 0, 0, 0, time.UTC)
	p.Begin("gateway", at(2400))
	p.Request(r, ingest.ReasonFuture)
	r.FinishedAt = time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC)
	p.Request(r, ingest.ReasonLate)
	s := p.Tick(at(2460), nil)[0]
	if s.Skew != 0 || s.Future != 1 || s.Watermark.After(at(2400)) {
		t.Errorf("after impossible times: %+v", s)
	}
	for m := 41; m < 62; m++ { // until no accepted record is left
		p.Begin("gateway", at(float64(m)*60))
		r.FinishedAt = at(float64(m)*60 + 3600)
		p.Request(r, ingest.ReasonFuture)
		s = p.Tick(at(float64(m+1)*60), nil)[0]
	}
	if s.Skew != 3600 {
		t.Errorf("all records are refused because they are an hour ahead: skew %v", s.Skew)
	}
}

func TestRestoreProducers(t *testing.T) {
	p, rng := NewProducers(producersConfig, true, nil), rand.New(rand.NewPCG(1, 1))
	run := func(p *Producers, rng *rand.Rand, from, to int) (out []any) {
		for m := from; m < to; m++ {
			for range 20 {
				s := float64(m)*60 + 60*rng.Float64()
				addFinished(p, []string{"", "a", "b"}[rng.IntN(3)], []string{"", "r1", "r2"}[rng.IntN(3)], s, s+20*rng.Float64()-5)
			}
			pools := []PoolMinute{{Pool: "p"}}
			out = append(out, append([]ProducerState(nil), p.Tick(at(float64(m+1)*60), pools)...), pools)
		}
		return out
	}
	run(p, rng, 0, 25)
	data, err := cbor.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var saved *Producers
	if err := cbor.Unmarshal(data, &saved); err != nil {
		t.Fatal(err)
	}
	restored := NewProducers(producersConfig, true, saved)
	want, got := run(p, rand.New(rand.NewPCG(2, 2)), 25, 50), run(restored, rand.New(rand.NewPCG(2, 2)), 25, 50)
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("outputs differ after a restart (-original +restored):\n%s", diff)
	}
	if diff := cmp.Diff(p.ByName, restored.ByName, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("states differ (-original +restored):\n%s", diff)
	}
}

func TestProducersAllocateNothing(t *testing.T) {
	p := NewProducers(producersConfig, true, nil)
	r, n := changed(request("", 1), times(1, 1, 2)), 0
	add := func() {
		n++
		r.ReplicaName = []string{"r1", "r2", "r3"}[n%3]
		p.Begin("", at(3))
		p.Request(r, "")
	}
	add()
	add()
	add()
	if allocs := testing.AllocsPerRun(1000, add); allocs > 0 {
		t.Errorf("%v allocations a record", allocs)
	}
}

func BenchmarkProducers(b *testing.B) {
	for _, replicas := range []int{1, 100} {
		b.Run(fmt.Sprint(replicas), func(b *testing.B) {
			p, names := NewProducers(producersConfig, true, nil), make([]string, replicas)
			for i := range names {
				names[i] = fmt.Sprint("replica-", i)
			}
			r, stored := changed(request("", 1), times(1, 1, 2)), at(3)
			p.Begin("", stored)
			b.ReportAllocs()
			for i := range b.N {
				r.ReplicaName = names[i%replicas]
				p.Request(r, "")
			}
		})
	}
}

// TestProducerLeavesPool: a producer that serves another pool now is silent in the old one for an hour, and is then
// forgotten there.
func TestProducerLeavesPool(t *testing.T) {
	p := NewProducers(producersConfig, true, nil)
	add := func(source, pool string, s float64) {
		r := changed(request("", s), times(s, s, s))
		r.Pool = pool
		p.Begin(source, at(s))
		p.Request(r, "")
	}
	const leaves = 20
	for m := range 100 {
		s := float64(m) * 60
		if m < leaves {
			add("gw-1", "a", s)
		}
		add("gw-1", "b", s)
		add("gw-2", "a", s)
		pools := []PoolMinute{{Pool: "a"}, {Pool: "b"}}
		p.Tick(at(s+60), pools)
		silent := m >= leaves+4 && m < leaves+60-1
		if faults := pools[0].Faults; (len(faults) == 1) != silent {
			t.Errorf("minute %d: faults %+v of the pool that gw-1 left, want a silent producer: %t", m, faults, silent)
		}
		if pools[1].Faults != nil {
			t.Errorf("minute %d: faults %+v of the pool that it serves", m, pools[1].Faults)
		}
	}
}
