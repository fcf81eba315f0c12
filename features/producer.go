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
	maxFeeds     = 16 // tracked pools per producer
	// producerTTL is the silence after which a producer is forgotten.
	producerTTL = time.Hour
	// delaySpan is the length of a span of delays. The current span and the one before are kept.
	delaySpan = 10 * time.Minute
	// maxDelay clips delays in both directions.
	maxDelay = 366 * 24 * unixTime(time.Hour)
)

// ProducersConfig defines the faults of producers.
type ProducersConfig struct {
	// ByReceipt uses the times at which the stream stored messages: on the wall clock. Without them, the skew of clocks
	// is unknown.
	ByReceipt  bool
	Lateness   time.Duration // a larger clock skew is a fault
	StaleAfter time.Duration // a longer silence is a fault, when other producers of the pool are live
}

// Producers tracks those who send telemetry: progress in event time, clock skew and silence. The messages name a
// producer (the Forewarm-Source header); otherwise the replica of its records does. All others are one producer named
// "".
//
// If a clock is ahead, records seem to be stored before their event: the smallest delay is negative, and the skew is at
// least that. If a clock is behind, all delays are too long. A producer that holds records back looks the same, and the
// two cannot be distinguished. One that sends batches has long delays too, but its smallest delay is short, because the
// last record of a batch does not wait. Only records with an exact event time count for that: an arrival, an end with
// its time, a report of a replica.
//
// At most 256 producers are tracked; the others are counted. A producer named by its messages replaces the replica that
// was silent longest. O(1) a record. A Producers must not be used by two goroutines at once.
type Producers struct {
	cfg     ProducersConfig
	byName  map[string]*producer
	list    []*producer // ordered by name
	latest  *producer
	refused uint64
	rotated unixTime // beginning of the current span of delays

	source   string // of the batch that is being applied
	received unixTime

	least  []float64 // scratch: the least delays of those that can be judged
	states []ProducerState
	faults []ProducerFault
}

// producer is the state of one producer.
type producer struct {
	name      string
	declared  bool // by its messages
	records   uint64
	future    uint64 // records refused because they are too far in the future
	watermark unixTime
	lastSeen  unixTime
	delays    [2]delays // this span, and the one before
	feeds     []feed
}

// feed is the state of a producer in one pool.
type feed struct {
	pool      string
	firstSeen unixTime
	lastSeen  unixTime
	watermark unixTime // newest request; never when it sends only reports of replicas
	pause     unixTime // usual longest silence: the longest gap, which decays by 2 % with each message
}

// NewProducers makes a Producers without any producer.
func NewProducers(cfg ProducersConfig) *Producers {
	return &Producers{cfg: cfg, byName: map[string]*producer{}, rotated: never}
}

// Begin starts a batch of records: source is its publisher, "" for unknown, received the time the stream stored it.
func (p *Producers) Begin(source string, received time.Time) {
	p.source, p.received = source, never
	if p.cfg.ByReceipt {
		p.received = unixTimeOf(received)
	}
}

// Request adds a record and why it was refused; "" if it was not.
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

// Sum adds a sum. Its delay is not exact: only the start of its span is known.
func (p *Producers) Sum(s *ingest.Sum, refusal ingest.Reason) {
	if refusal != ingest.ReasonUnknownPool {
		p.record("", s.Pool, unixTimeOf(s.Start), false, true, refusal)
	}
}

// Replica adds a report.
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
		at = never
	}
	seen := p.received
	if !p.cfg.ByReceipt {
		if seen = at; refusal != "" {
			return // on the event clock, the time of a refused record is not used
		}
	}
	x.lastSeen, x.watermark = max(x.lastSeen, seen), max(x.watermark, at)
	if f := x.feed(pool, seen); f != nil {
		if gap := seen - f.lastSeen; gap > 0 {
			f.pause = max(gap, f.pause-f.pause/50)
			f.lastSeen = seen
		}
		if demand {
			f.watermark = max(f.watermark, at)
		}
	}
}

// find returns a producer, a new one if necessary; nil when there are too many.
func (p *Producers) find(name string) *producer {
	declared := p.source != ""
	if x, ok := p.byName[name]; ok {
		return x
	}
	if len(p.list) >= maxProducers && !(declared && p.makeRoom()) {
		p.refused++
		return nil
	}
	x := &producer{name: name, declared: declared, watermark: never, lastSeen: never, delays: [2]delays{noDelays, noDelays}}
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
	var oldest *producer
	for _, x := range p.list {
		if !x.declared && (oldest == nil || x.lastSeen < oldest.lastSeen) {
			oldest = x
		}
	}
	if oldest == nil {
		return false
	}
	p.forget(func(x *producer) bool { return x == oldest })
	return true
}

func (p *Producers) forget(match func(*producer) bool) {
	p.latest = nil
	p.list = slices.DeleteFunc(p.list, func(x *producer) bool {
		if match(x) {
			delete(p.byName, x.name)
			return true
		}
		return false
	})
}

// Forget removes a pool from all producers.
func (p *Producers) Forget(pool string) {
	for _, x := range p.list {
		x.feeds = slices.DeleteFunc(x.feeds, func(f feed) bool { return f.pool == pool })
	}
}

// feed finds or adds the feed of a pool; nil beyond maxFeeds.
func (x *producer) feed(pool string, seen unixTime) *feed {
	if f := x.of(pool); f != nil {
		return f
	}
	if len(x.feeds) == maxFeeds {
		return nil
	}
	x.feeds = append(x.feeds, feed{pool: pool, firstSeen: seen, lastSeen: seen, watermark: never})
	return &x.feeds[len(x.feeds)-1]
}

// Refused counts the records of untracked producers.
func (p *Producers) Refused() uint64 { return p.refused }

// delaySeconds converts a delay from nanoseconds to seconds; NaN for none.
func delaySeconds(ns int64) float64 {
	if ns == math.MaxInt64 {
		return math.NaN()
	}
	return float64(ns) / float64(second)
}
