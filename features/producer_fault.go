package features

import (
	"math"
	"slices"
	"time"
)

// minSureRecords is how many records a clock is judged by.
const minSureRecords = 10

// skewTolerance is what is taken for no skew: machines on NTP agree to far less.
const skewTolerance = 500 * time.Millisecond

// ProducerState is what is known of a producer at a tick.
type ProducerState struct {
	Name      string
	Declared  bool // named by its messages, not only by its replica
	Records   uint64
	Future    uint64    // records refused because they lay too far ahead
	Watermark time.Time // newest event
	Heard     time.Time // last heard of
	// Skew is by how many seconds the clock is off, at least: positive ahead, negative behind or held back; NaN when too
	// little is known, and on the event clock.
	Skew float64
	// Delays from the event to its storing in the stream, in seconds over the last ten to twenty minutes; NaN when none is
	// known. One that sends in batches has a typical delay far above its least.
	DelayLeast, DelayTypical float64
}

// FaultKind says what is wrong with a producer.
type FaultKind string

// The faults.
const (
	FaultAhead  FaultKind = "clock_ahead"  // its clock is ahead
	FaultBehind FaultKind = "clock_behind" // its clock is behind, or it holds records back
	FaultSilent FaultKind = "silent"       // it fell silent while others of its pool did not
)

// ProducerFault is a fault of a producer that concerns a pool.
type ProducerFault struct {
	Producer string    `json:"source" cbor:"1,keyasint"`
	Kind     FaultKind `json:"kind" cbor:"2,keyasint"`
	Seconds  float64   `json:"clock_skew_seconds,omitempty" cbor:"3,keyasint,omitempty"` // by which its clock is off, at least
	Future   uint64    `json:"future_records,omitempty" cbor:"4,keyasint,omitempty"`     // records refused because they lay too far ahead
	Since    time.Time `json:"heard,omitzero" cbor:"5,keyasint"`                         // last heard of, when silent
}

// Tick judges the producers at the end of a minute, in the order of their names, and fills in the pools what concerns
// them. The results are valid until the next tick. O(producers × pools of each).
func (p *Producers) Tick(t time.Time, pools []PoolMinute) []ProducerState {
	now := unixTimeOf(t)
	p.forget(func(x *producer) bool { return x.heard < now-unixTime(producerTTL) })
	p.states, p.faults = p.states[:0], p.faults[:0]
	p.least = p.least[:0]
	for _, x := range p.list {
		if d := x.recent(); d.Sure >= minSureRecords {
			p.least = append(p.least, max(delaySeconds(d.LeastSure), 0))
		}
	}
	slices.Sort(p.least)
	for _, x := range p.list {
		p.states = append(p.states, p.state(x))
	}
	for i := range pools {
		p.fill(&pools[i], now)
	}
	if p.rotated == never || now-p.rotated >= unixTime(delaySpan) {
		for _, x := range p.list {
			x.delays = [2]delays{noDelays, x.delays[0]}
		}
		p.rotated = now
	}
	return p.states
}

func (p *Producers) state(x *producer) ProducerState {
	d := x.recent()
	return ProducerState{
		Name: x.name, Declared: x.declared, Records: x.records, Future: x.future,
		Watermark: x.watermark.time(), Heard: x.heard.time(),
		Skew: p.skew(&d), DelayLeast: delaySeconds(d.LeastSure), DelayTypical: d.median(),
	}
}

// skew is by how much a clock is off, see Producers.
func (p *Producers) skew(d *delays) float64 {
	switch {
	case d.Least < -int64(skewTolerance):
		return -delaySeconds(d.Least)
	case d.Sure < minSureRecords:
		return math.NaN()
	}
	if late := delaySeconds(d.LeastSure) - p.usual(max(delaySeconds(d.LeastSure), 0)); late > skewTolerance.Seconds() {
		return -late
	}
	return 0
}

// usual is the median of the least delays of the other producers than one with a least delay of its own, in seconds; 0
// when there is none to compare with.
func (p *Producers) usual(own float64) float64 {
	n := len(p.least) - 1
	if n < 1 {
		return 0
	}
	self, _ := slices.BinarySearch(p.least, own)
	other := func(i int) float64 {
		if i >= self {
			i++
		}
		return p.least[i]
	}
	return (other((n-1)/2) + other(n/2)) / 2
}

// recent are the delays of this span and the one before.
func (x *producer) recent() delays { return x.delays[0].joined(&x.delays[1]) }

// fill says what concerns a pool: how far its slowest live producer has come, and the faults.
func (p *Producers) fill(m *PoolMinute, now unixTime) {
	stale := unixTime(p.cfg.StaleAfter)
	live, slowest, heard := 0, never, never
	for _, x := range p.list {
		f := x.of(m.Pool)
		if f != nil {
			heard = max(heard, f.heard)
		}
		if f != nil && f.watermark != never && now-f.heard <= max(stale, 2*f.pause) {
			if live++; live == 1 || f.watermark < slowest {
				slowest = f.watermark
			}
		}
	}
	m.Producers, m.Complete, m.Heard = live, slowest.time(), heard.time()
	first := len(p.faults)
	for i, x := range p.list {
		f := x.of(m.Pool)
		if f == nil {
			continue
		}
		fault := ProducerFault{Producer: x.name, Future: x.future}
		skew := p.states[i].Skew
		switch {
		case now-f.heard > max(stale, 2*f.pause):
			// A replica that is gone is no fault, and a pool whose producers are all silent is stale as a whole.
			if !x.declared || live == 0 || f.watermark == never || f.heard-f.since < unixTime(delaySpan) {
				continue
			}
			fault.Kind, fault.Since = FaultSilent, f.heard.time()
		case skew > p.cfg.Lateness.Seconds() && skew > 0:
			fault.Kind, fault.Seconds = FaultAhead, skew
		case -skew > p.cfg.Lateness.Seconds() && skew < 0:
			fault.Kind, fault.Seconds = FaultBehind, -skew
		default:
			continue
		}
		p.faults = append(p.faults, fault)
	}
	if len(p.faults) > first {
		m.Faults = slices.Clip(p.faults[first:])
	}
}

func (x *producer) of(pool string) *feed {
	for i := range x.feeds {
		if x.feeds[i].pool == pool {
			return &x.feeds[i]
		}
	}
	return nil
}
