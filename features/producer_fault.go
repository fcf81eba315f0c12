package features

import (
	"math"
	"slices"
	"time"
)

// minSureRecords is the number of records needed to judge a clock.
const minSureRecords = 10

// skewTolerance is the largest skew that counts as none. Machines with NTP have much less.
const skewTolerance = 500 * time.Millisecond

// ProducerState is the state of a producer at a tick.
type ProducerState struct {
	Name      string
	Declared  bool // named by its messages, not only by its replica
	Records   uint64
	Future    uint64    // records refused because they are too far in the future
	Watermark time.Time // newest event
	Heard     time.Time // newest message
	// Skew is the minimum clock skew in seconds: positive ahead, negative behind or held back; NaN with too little
	// data, and on the event clock.
	Skew float64
	// Delays from the event to its storage in the stream, in seconds over the last ten to twenty minutes; NaN when
	// unknown. For a producer that sends batches, the typical delay is far above the least.
	DelayLeast, DelayTypical float64
}

// FaultKind is the kind of a fault.
type FaultKind string

// The faults.
const (
	FaultAhead  FaultKind = "clock_ahead"  // its clock is ahead
	FaultBehind FaultKind = "clock_behind" // its clock is behind, or it holds records back
	FaultSilent FaultKind = "silent"       // it is silent while others of its pool are live
)

// ProducerFault is a fault of a producer that concerns a pool.
type ProducerFault struct {
	Producer string    `json:"source" cbor:"1,keyasint"`
	Kind     FaultKind `json:"kind" cbor:"2,keyasint"`
	Seconds  float64   `json:"clock_skew_seconds,omitempty" cbor:"3,keyasint,omitempty"` // minimum clock skew
	Future   uint64    `json:"future_records,omitempty" cbor:"4,keyasint,omitempty"`     // records refused because they are too far in the future
	Since    time.Time `json:"heard,omitzero" cbor:"5,keyasint"`                         // newest message, when silent
}

// Tick returns the states of the producers at the end of a minute, in the order of their names, and sets the fields
// about producers in pools. The results are valid until the next tick. O(producers × pools of each).
func (p *Producers) Tick(t time.Time, pools []PoolMinute) []ProducerState {
	now := unixTimeOf(t)
	p.forget(func(x *producer) bool { return x.lastSeen < now-unixTime(producerTTL) })
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
		Watermark: x.watermark.time(), Heard: x.lastSeen.time(),
		Skew: p.skew(&d), DelayLeast: delaySeconds(d.LeastSure), DelayTypical: d.median(),
	}
}

// skew is the clock skew in seconds, see Producers.
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

// usual is the median of the least delays of the other producers, in seconds; own is that of the producer itself. It is
// 0 without others.
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

// fill sets the progress of the slowest live producer of a pool, and the faults.
func (p *Producers) fill(m *PoolMinute, now unixTime) {
	stale := unixTime(p.cfg.StaleAfter)
	live, slowest, seen := 0, never, never
	for _, x := range p.list {
		f := x.of(m.Pool)
		if f != nil {
			seen = max(seen, f.lastSeen)
		}
		if f != nil && f.watermark != never && now-f.lastSeen <= max(stale, 2*f.pause) {
			if live++; live == 1 || f.watermark < slowest {
				slowest = f.watermark
			}
		}
	}
	m.Producers, m.Complete, m.Heard = live, slowest.time(), seen.time()
	first := len(p.faults)
	for i, x := range p.list {
		f := x.of(m.Pool)
		if f == nil {
			continue
		}
		fault := ProducerFault{Producer: x.name, Future: x.future}
		skew := p.states[i].Skew
		switch {
		case now-f.lastSeen > max(stale, 2*f.pause):
			// A replica that has stopped is no fault. A pool without any live producer is stale as a whole.
			if !x.declared || live == 0 || f.watermark == never || f.lastSeen-f.firstSeen < unixTime(delaySpan) {
				continue
			}
			fault.Kind, fault.Since = FaultSilent, f.lastSeen.time()
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
