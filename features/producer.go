package features

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/value"
)

const (
	maxProducers = 1024
	// producerTTL is the silence after which a producer is forgotten: as a whole, or in one pool.
	producerTTL = time.Hour
	// delaySpan is the length of a span of delays. The current span and the one before are kept.
	delaySpan = 10 * time.Minute
	// maxDelay clips delays in both directions.
	maxDelay = 366 * 24 * unixTime(time.Hour)
	// minExactRecords is the number of records needed to judge a clock.
	minExactRecords = 10
	// skewTolerance is the largest skew that counts as none. Machines with NTP have much less.
	skewTolerance = unixTime(500 * time.Millisecond)
)

// Producers tracks those who send telemetry: progress in event time, clock skew and silence. The messages name a
// producer (the Forewarm-Source header); otherwise the replica of its records does. All others are one producer named
// "".
//
// If a clock is ahead, records seem to be stored before their event: the smallest delay is negative, and the skew is at
// least that. If a clock is behind, all delays are too long. A producer that holds records back looks the same, and the
// two cannot be distinguished. One that sends batches has long delays too, but its smallest delay is short, because the
// last record of a batch does not wait. Only records with an exact event time count for that: an arrival, an end with
// its time, a report of a replica. Refused records do not count while others are accepted.
//
// At most 1,024 producers are tracked, each in the pools that are served; the others are counted. O(1) a record. A
// Producers must not be used by two goroutines at once. The exported fields are the state for snapshots.
type Producers struct {
	ByName  map[string]*producer `cbor:"1,keyasint"`
	Refused uint64               `cbor:"2,keyasint"` // records of untracked producers
	Rotated unixTime             `cbor:"3,keyasint"` // beginning of the current span of delays

	lateness, staleAfter time.Duration
	byReceipt            bool
	source               string // of the batch that is being applied
	received             unixTime
}

type producer struct {
	Name      string           `cbor:"1,keyasint"`
	Declared  bool             `cbor:"2,keyasint,omitempty"` // by its messages
	Records   uint64           `cbor:"3,keyasint"`
	Future    uint64           `cbor:"4,keyasint,omitempty"` // records refused because they are too far in the future
	Watermark unixTime         `cbor:"5,keyasint"`
	LastSeen  unixTime         `cbor:"6,keyasint"`
	Delays    [2]delays        `cbor:"7,keyasint"` // this span, and the one before
	Refused   [2]delays        `cbor:"9,keyasint"` // as Delays, of refused records
	Feeds     map[string]*feed `cbor:"8,keyasint"` // by pool
}

// delays are those of one producer's records within a span, from the event to its storing in the stream.
type delays struct {
	Least      unixTime `cbor:"1,keyasint"` // of all; math.MaxInt64 when there is none
	LeastExact unixTime `cbor:"2,keyasint"` // of records with an exact event time
	Exact      uint64   `cbor:"3,keyasint"` // number of those
}

var noDelays = delays{Least: math.MaxInt64, LeastExact: math.MaxInt64}

type feed struct {
	FirstSeen unixTime `cbor:"2,keyasint"`
	LastSeen  unixTime `cbor:"3,keyasint"`
	Watermark unixTime `cbor:"4,keyasint"` // newest request; never when it sends only reports of replicas
	Pause     unixTime `cbor:"5,keyasint"` // usual longest silence: the longest gap, which decays by 2 % with each message
}

// NewProducers continues from a saved state; nil is none. A clock skew above cfg.Lateness is a fault, and a silence above
// cfg.StaleAfter while other producers of the pool are live. byReceipt uses the times at which the stream stored
// messages: on the wall clock. Without them, the skew of clocks is unknown.
func NewProducers(cfg Config, byReceipt bool, saved *Producers) *Producers {
	if saved == nil || saved.ByName == nil {
		saved = &Producers{ByName: map[string]*producer{}, Rotated: never}
	}
	saved.lateness, saved.staleAfter, saved.byReceipt = cfg.Lateness, cfg.StaleAfter, byReceipt
	return saved
}

// Begin starts a batch of records: source is its publisher, "" for unknown, received the time the stream stored it.
func (p *Producers) Begin(source string, received time.Time) {
	p.source, p.received = source, never
	if p.byReceipt {
		p.received = unixTimeOf(received)
	}
}

// Request adds a record and why it was refused; "" if it was not.
func (p *Producers) Request(r *ingest.Request, refusal ingest.Reason) {
	at, exact := unixTimeOf(r.FinishedAt), true
	if r.Phase == ingest.PhaseArrived || at == never {
		at, exact = unixTimeOf(r.EventTime()), r.Phase == ingest.PhaseArrived
	}
	p.record(r.ReplicaName, r.Pool, at, exact, true, refusal)
}

// Sum adds a sum. Its delay is not exact: only the start of its span is known.
func (p *Producers) Sum(s *ingest.Sum, refusal ingest.Reason) {
	p.record("", s.Pool, unixTimeOf(s.Start), false, true, refusal)
}

// Replica adds a report.
func (p *Producers) Replica(r *ingest.Replica, refusal ingest.Reason) {
	p.record(r.Name, r.Pool, unixTimeOf(r.At), true, false, refusal)
}

func (p *Producers) record(replica, pool string, at unixTime, exact, demand bool, refusal ingest.Reason) {
	if refusal == ingest.ReasonUnknownPool {
		return
	}
	name := p.source
	if name == "" {
		name = replica
	}
	x := p.find(name)
	if x == nil {
		return
	}
	x.Declared = x.Declared || p.source != ""
	x.Records++
	if p.received != never && refusal != ingest.ReasonDuplicate {
		spans := &x.Delays
		if refusal != "" {
			spans = &x.Refused
		}
		spans[0].add(p.received-min(max(at, p.received-maxDelay), p.received+maxDelay), exact)
	}
	if refusal == ingest.ReasonFuture {
		x.Future++
		at = never
	}
	seen := p.received
	if !p.byReceipt {
		if seen = at; refusal != "" {
			return // on the event clock, the time of a refused record is not used
		}
	}
	x.LastSeen, x.Watermark = max(x.LastSeen, seen), max(x.Watermark, at)
	f := x.Feeds[pool]
	if f == nil {
		f = &feed{FirstSeen: seen, LastSeen: seen, Watermark: never}
		x.Feeds[pool] = f
	}
	if gap := seen - f.LastSeen; gap > 0 {
		f.Pause = max(gap, f.Pause-f.Pause/50)
		f.LastSeen = seen
	}
	if demand {
		f.Watermark = max(f.Watermark, at)
	}
}

func (d *delays) add(delay unixTime, exact bool) {
	d.Least = min(d.Least, delay)
	if exact {
		d.LeastExact = min(d.LeastExact, delay)
		d.Exact++
	}
}

// find returns a producer, a new one if necessary; nil when there are too many.
func (p *Producers) find(name string) *producer {
	if x := p.ByName[name]; x != nil {
		return x
	}
	if len(p.ByName) >= maxProducers {
		p.Refused++
		return nil
	}
	none := [2]delays{noDelays, noDelays}
	x := &producer{Name: name, Watermark: never, LastSeen: never, Delays: none, Refused: none, Feeds: map[string]*feed{}}
	p.ByName[name] = x
	return x
}

// ProducerState is the state of a producer at a tick.
type ProducerState struct {
	Name      string     `json:"source,omitempty"` // the header Forewarm-Source of its messages, or its replica; "" if unknown
	Declared  bool       `json:"declared"`         // the header names it
	Records   uint64     `json:"records"`          // refused ones included
	Future    uint64     `json:"future_records"`   // refused because they are too far in the future
	Watermark *time.Time `json:"watermark"`        // newest event time
	Heard     *time.Time `json:"heard"`            // when its newest record was stored
	// Skew is the minimum clock skew over the last ten to twenty minutes: positive ahead, negative behind or held back;
	// NaN with too little data, and on the event clock.
	Skew value.Number `json:"clock_skew_seconds"`
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
	Future   uint64    `json:"future_records,omitempty" cbor:"4,keyasint,omitempty"`     // records refused as too far in the future
	Since    time.Time `json:"heard,omitzero" cbor:"5,keyasint"`                         // newest message, when silent
}

// Tick returns the states of the producers at the end of a minute, in the order of their names, and sets the fields
// about producers in pools. O(producers × pools).
func (p *Producers) Tick(t time.Time, pools []PoolMinute) []ProducerState {
	now := unixTimeOf(t)
	oldest := now - unixTime(producerTTL)
	maps.DeleteFunc(p.ByName, func(_ string, x *producer) bool { return x.LastSeen < oldest })
	for _, x := range p.ByName {
		maps.DeleteFunc(x.Feeds, func(_ string, f *feed) bool { return f.LastSeen < oldest })
	}
	states := make([]ProducerState, 0, len(p.ByName))
	for _, name := range slices.Sorted(maps.Keys(p.ByName)) {
		x := p.ByName[name]
		states = append(states, ProducerState{
			Name: x.Name, Declared: x.Declared, Records: x.Records, Future: x.Future,
			Watermark: value.Instant(x.Watermark.time()), Heard: value.Instant(x.LastSeen.time()), Skew: value.Number(x.skew()),
		})
	}
	for i := range pools {
		p.fill(&pools[i], states, now)
	}
	if p.Rotated == never || now-p.Rotated >= unixTime(delaySpan) {
		for _, x := range p.ByName {
			x.Delays, x.Refused = [2]delays{noDelays, x.Delays[0]}, [2]delays{noDelays, x.Refused[0]}
		}
		p.Rotated = now
	}
	return states
}

// skew is the clock skew in seconds, see Producers.
func (x *producer) skew() float64 {
	this, before := &x.Delays[0], &x.Delays[1]
	if min(this.Least, before.Least) == math.MaxInt64 { // none was accepted
		this, before = &x.Refused[0], &x.Refused[1]
	}
	least := min(this.Least, before.Least)
	exact := min(this.LeastExact, before.LeastExact)
	switch {
	case least < -skewTolerance:
		return unixTime(0).secondsTo(-least)
	case this.Exact+before.Exact < minExactRecords:
		return math.NaN()
	case exact > skewTolerance:
		return unixTime(0).secondsTo(-exact)
	}
	return 0
}

// silent reports whether a feed has paused for longer than usual.
func (p *Producers) silent(f *feed, now unixTime) bool {
	return now-f.LastSeen > max(unixTime(p.staleAfter), 2*f.Pause)
}

// fill sets the faults of a pool's producers.
func (p *Producers) fill(m *PoolMinute, states []ProducerState, now unixTime) {
	live := false
	for _, x := range p.ByName {
		if f := x.Feeds[m.Pool]; f != nil {
			live = live || f.Watermark != never && !p.silent(f, now)
		}
	}
	lateness := max(p.lateness.Seconds(), 0)
	for i := range states {
		s := &states[i]
		f := p.ByName[s.Name].Feeds[m.Pool]
		if f == nil {
			continue
		}
		fault := ProducerFault{Producer: s.Name, Future: s.Future}
		switch {
		case p.silent(f, now):
			// A replica that has stopped is no fault. A pool without any live producer is stale as a whole.
			if !s.Declared || !live || f.Watermark == never || f.LastSeen-f.FirstSeen < unixTime(delaySpan) {
				continue
			}
			fault.Kind, fault.Since = FaultSilent, f.LastSeen.time()
		case float64(s.Skew) > lateness:
			fault.Kind, fault.Seconds = FaultAhead, float64(s.Skew)
		case float64(s.Skew) < -lateness:
			fault.Kind, fault.Seconds = FaultBehind, -float64(s.Skew)
		default:
			continue
		}
		m.Faults = append(m.Faults, fault)
	}
}
