package features

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

const (
	maxProducers = 256
	maxFeeds     = 16 // pools of one producer that are told apart
	// producerTTL forgets a producer that was silent for so long.
	producerTTL = time.Hour
	// delaySpan is how long delays are collected before the ones before them are let go: what is known of a producer's
	// delays is one to two spans old at most.
	delaySpan = 10 * time.Minute
	// maxDelay is the longest delay that is told from longer ones, in either direction.
	maxDelay = 366 * 24 * unixTime(time.Hour)
)

// ProducersConfig says what is a fault.
type ProducersConfig struct {
	// ByReceipt says that the times at which the stream stored messages can be trusted to be those of a replay, too: on the
	// wall clock. Otherwise they leave no trace, and clocks cannot be judged.
	ByReceipt  bool
	Lateness   time.Duration // a clock that is off by more is a fault
	StaleAfter time.Duration // a producer that is silent for longer is, when others of its pool are not
}

// Producers watches those who send telemetry: how far each has come in event time, how far its clock is off, and whether
// it fell silent. A producer is named by its messages (the Forewarm-Source header), or else by the replica that its
// records are of. All who name neither are one producer with the name "".
//
// Of a clock that is ahead, records seem to be stored before they happened, so the smallest delay is below zero, and the
// clock is off by at least as much. Of one that is behind, all delays are too long; so are those of a producer that holds
// its records back, and the two cannot be told apart. One that sends in batches has long delays too, but the last record
// of a batch does not wait: its smallest delay is short. Only records whose event is known to the instant count for
// that: an arrival, an end with its time, the report of a replica.
//
// At most 256 producers are followed, new ones beyond are counted; one named by its messages takes the place of the
// replica that was silent longest. O(1) a record. A Producers must not be used by two goroutines at once.
type Producers struct {
	cfg     ProducersConfig
	byName  map[string]*producer
	list    []*producer // ordered by name
	latest  *producer
	refused uint64
	rotated unixTime // when the delays began to be collected again

	source   string // of the batch that is being applied
	received unixTime

	least  []float64 // scratch: the least delays of those that can be judged
	states []ProducerState
	faults []ProducerFault
}

// producer is what is known of one.
type producer struct {
	name      string
	declared  bool // by its messages
	records   uint64
	future    uint64 // records refused because they lie too far ahead
	watermark unixTime
	heard     unixTime
	delays    [2]delays // this span, and the one before
	feeds     []feed
}

// feed is what a producer sends of one pool.
type feed struct {
	pool      string
	since     unixTime // first heard of
	heard     unixTime // last heard of
	watermark unixTime // newest request; never when it sends only reports of replicas
	pause     unixTime // the longest usual silence: the longest gap, fading by 2 % with each message
}

// NewProducers knows none.
func NewProducers(cfg ProducersConfig) *Producers {
	return &Producers{cfg: cfg, byName: map[string]*producer{}, rotated: never}
}

// Begin tells of the batch whose records come next: who published it, "" for unknown, and when the stream stored it.
func (p *Producers) Begin(source string, received time.Time) {
	p.source, p.received = source, never
	if p.cfg.ByReceipt {
		p.received = unixTimeOf(received)
	}
}

// Request takes note of a record and of what refusal of it.
func (p *Producers) Request(r *ingest.Request, refusal ingest.Reason) {
	if refusal == ingest.ReasonUnknownPool {
		return
	}
	at, sure := unixTimeOf(r.FinishedAt), true
	if r.Phase == ingest.PhaseArrived || at == never {
		at, sure = unixTimeOf(r.EventTime()), r.Phase == ingest.PhaseArrived
	}
	p.record(r.ReplicaName, r.Pool, at, sure, true, refusal)
}

// Sum takes note of one; its delay says nothing, for its span may have only begun at its start.
func (p *Producers) Sum(s *ingest.Sum, refusal ingest.Reason) {
	if refusal != ingest.ReasonUnknownPool {
		p.record("", s.Pool, unixTimeOf(s.Start), false, true, refusal)
	}
}

// Replica takes note of a report.
func (p *Producers) Replica(r *ingest.Replica, refusal ingest.Reason) {
	if refusal != ingest.ReasonUnknownPool {
		p.record(r.Name, r.Pool, unixTimeOf(r.At), true, false, refusal)
	}
}

func (p *Producers) record(replica, pool string, at unixTime, sure, demand bool, refusal ingest.Reason) {
	name := p.source
	if name == "" {
		name = replica
	}
	x := p.latest
	if x == nil || x.name != name {
		if x = p.find(name); x == nil {
			return
		}
		p.latest = x
	}
	x.declared = x.declared || p.source != ""
	x.records++
	if p.received != never && refusal != ingest.ReasonDuplicate {
		x.delays[0].add(int64(p.received-min(max(at, p.received-maxDelay), p.received+maxDelay)), sure)
	}
	if refusal == ingest.ReasonFuture {
		x.future++
		at = never // whenever that was
	}
	heard := p.received
	if !p.cfg.ByReceipt {
		if heard = at; refusal != "" {
			return // on the event clock, a record that was refused says nothing of time
		}
	}
	x.heard, x.watermark = max(x.heard, heard), max(x.watermark, at)
	if f := x.feed(pool, heard); f != nil {
		if gap := heard - f.heard; gap > 0 {
			f.pause = max(gap, f.pause-f.pause/50)
			f.heard = heard
		}
		if demand {
			f.watermark = max(f.watermark, at)
		}
	}
}

// find gives a producer, a new one if there is room; nil if not.
func (p *Producers) find(name string) *producer {
	declared := p.source != ""
	if x, ok := p.byName[name]; ok {
		return x
	}
	if len(p.list) >= maxProducers && !(declared && p.makeRoom()) {
		p.refused++
		return nil
	}
	x := &producer{name: name, declared: declared, watermark: never, heard: never, delays: [2]delays{noDelays, noDelays}}
	p.insert(x)
	return x
}

func (p *Producers) insert(x *producer) {
	p.byName[x.name] = x
	i, _ := slices.BinarySearchFunc(p.list, x.name, func(o *producer, name string) int { return strings.Compare(o.name, name) })
	p.list = slices.Insert(p.list, i, x)
}

// makeRoom forgets the replica that was silent longest.
func (p *Producers) makeRoom() bool {
	var out *producer
	for _, x := range p.list {
		if !x.declared && (out == nil || x.heard < out.heard) {
			out = x
		}
	}
	if out == nil {
		return false
	}
	p.forget(func(x *producer) bool { return x == out })
	return true
}

func (p *Producers) forget(gone func(*producer) bool) {
	p.latest = nil
	p.list = slices.DeleteFunc(p.list, func(x *producer) bool {
		if gone(x) {
			delete(p.byName, x.name)
			return true
		}
		return false
	})
}

// Forget forgets what all producers sent of a pool.
func (p *Producers) Forget(pool string) {
	for _, x := range p.list {
		x.feeds = slices.DeleteFunc(x.feeds, func(f feed) bool { return f.pool == pool })
	}
}

// feed finds what a producer sends of a pool; nil beyond maxFeeds.
func (x *producer) feed(pool string, heard unixTime) *feed {
	for i := range x.feeds {
		if x.feeds[i].pool == pool {
			return &x.feeds[i]
		}
	}
	if len(x.feeds) == maxFeeds {
		return nil
	}
	x.feeds = append(x.feeds, feed{pool: pool, since: heard, heard: heard, watermark: never})
	return &x.feeds[len(x.feeds)-1]
}

// Refused counts the records of producers that there was no room for.
func (p *Producers) Refused() uint64 { return p.refused }

// seconds of a delay, NaN for none.
func delaySeconds(ns int64) float64 {
	if ns == math.MaxInt64 {
		return math.NaN()
	}
	return float64(ns) / float64(second)
}
