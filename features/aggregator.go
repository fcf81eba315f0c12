package features

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// aheadMinutes is how far occupancy may reach beyond the newest minute: only traces with drawn times know the future.
const aheadMinutes = 60

// Aggregator adds records to windows, one minute of event time per pool and class.
//
// It owns no clock. The caller adds records in the order of the log and calls Close at every minute boundary; which
// minutes are open follows from the last Close alone. With o the first minute that has not been closed and R =
// Config.Revise in minutes, the open span is [o − R, o + 60 and a little): records before it are late, records beyond
// it are in the future. The first record opens the span when no Close has come before it.
//
// Every Add costs O(1) amortised, plus the ten-second slots that a request's life touches. Memory is bounded by classes
// × open minutes. Pools are bounded by the caller, who refuses those it does not know. An Aggregator must not be used
// by two goroutines at once.
type Aggregator struct {
	cfg           Config
	revise, ahead int64 // minutes
	mask          int64 // see slot

	started bool  // the span is open
	closed  bool  // Close has been called
	open    int64 // first minute that has not been closed

	byName   map[string]*pool
	named    int     // classes of all pools beside OverflowClass
	pools    []*pool // ordered by name
	latest   *pool   // the last one looked up
	arrivals arrivals
	counters Counters

	round  int64 // Closes so far and one; a bucket of the last one is new
	unseen int64 // the first minute that was never returned

	windows    []Window
	minutes    []PoolMinute
	estimates  []Estimate // the nowcasts of windows
	delta      delta      // of the request at hand
	nowcasting nowcasting
}

// New makes an empty Aggregator. Bounds in cfg that are not positive mean their defaults.
func New(cfg Config) *Aggregator {
	cfg = cfg.complete()
	a := &Aggregator{
		cfg:      cfg,
		revise:   minutes(cfg.Revise),
		ahead:    aheadMinutes + minutes(cfg.Lateness+cfg.FutureBound) + 1,
		byName:   make(map[string]*pool),
		arrivals: newArrivals(maxArrivals),
		round:    1, unseen: math.MinInt64,
	}
	a.mask = int64(a.slots() - 1)
	return a
}

// Counters are the counts since the Aggregator began, snapshots included.
func (a *Aggregator) Counters() Counters { return a.counters }

// AddReplica takes in the state of one replica. The caller has checked that its pool is known and that it is not ahead
// of the clock.
func (a *Aggregator) AddReplica(r *ingest.Replica) ReplicaLife {
	at := unixTimeOf(r.At)
	a.begin(at.minute())
	p := a.pool(r.Pool)
	before := p.fleet.newest(r.Name)
	taken, life := p.fleet.add(r, a.cfg.MaxReplicas, &a.counters)
	if taken {
		a.noteQueue(p, at)
		a.noteUse(p, &before, r)
	}
	a.evidence(p, at.minute(), at)
	return life
}

// AddWatermark takes in a promise about time. One that names a pool covers that pool's minutes up to it, so that
// silence in them is zero traffic; one without a pool says nothing to the Aggregator.
func (a *Aggregator) AddWatermark(w *ingest.Watermark) {
	if w.Pool == "" {
		return
	}
	p := a.pool(w.Pool)
	at := unixTimeOf(w.At)
	p.watermark = max(p.watermark, at)
	p.lastEvent = max(p.lastEvent, at)
}

// begin opens the span at the first record. Until the first Close, a record beyond the span opens it again, so that one
// that is absurdly old cannot keep the others out.
func (a *Aggregator) begin(minute int64) {
	switch {
	case !a.started:
		a.started, a.open = true, minute
	case !a.closed && minute >= a.end():
		a.advance(minute)
	}
}

// oldest is the first minute of the open span, end the first beyond it.
func (a *Aggregator) oldest() int64 { return a.open - a.revise }
func (a *Aggregator) end() int64    { return a.open + a.ahead }

// holds says whether a minute is in the open span.
func (a *Aggregator) holds(minute int64) bool { return minute >= a.oldest() && minute < a.end() }

// refuse says why a record of this minute cannot be counted, and counts that.
func (a *Aggregator) refuse(minute int64) ingest.Reason {
	switch {
	case minute < a.oldest():
		a.counters.Late++
		return ingest.ReasonLate
	case minute >= a.end():
		a.counters.Future++
		return ingest.ReasonFuture
	}
	return ""
}

// evidence notes that a record of the pool fell into a minute.
func (a *Aggregator) evidence(p *pool, minute int64, at unixTime) {
	p.lastEvent = max(p.lastEvent, at)
	if a.holds(minute) {
		p.coverage[a.slot(minute)].evidence = true
	}
}

// covered says whether telemetry of the pool was alive in a minute of the open span. One producer that is behind the others
// does not unset that: what it still holds back is a reporting delay, which the nowcast adds, and one that flushes each
// minute would blank every newest minute. How far the slowest has come is in [PoolMinute].Complete; beyond the bounds of
// ProducersConfig that is a fault, which warns, and while one is silent nothing is scaled in.
func (a *Aggregator) covered(p *pool, minute int64) bool {
	return p.coverage[a.slot(minute)].evidence || p.watermark >= unixTime(minute+1)*minuteLength
}
