// Package pipeline applies an event log, record by record.
//
//	state', outputs = step(state, event-or-tick)
//
// The daemon, the backtest and the tests run this same code; only the sources of events and time differ. Nothing here
// or below reads a clock, opens a socket, logs, or starts a goroutine.
//
// Invariants: the same batches in the same order give the same state and the same outputs, byte for byte, also across a
// snapshot and restore. Units: a tick is a whole minute. Bounds: those of the parts (features.Config for classes and
// replicas, ingest.Deduper for ids); nothing else grows.
package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/value"
)

// Clock is the source of time.
type Clock string

// The clocks. WallClock: the log has a watermark each minute. EventClock: records move time, so a trace runs fast.
const (
	WallClock  Clock = "wall"
	EventClock Clock = "event"
)

// Config is everything a Pipeline depends on.
type Config struct {
	Clock    Clock
	Features features.Config
	Classify features.ClassifyConfig
	Decision alerting.Config
	// Pools have unique names. Telemetry of other pools is refused, or gets a copy of DefaultPool if that is set.
	Pools       []capacity.Pool
	DefaultPool *capacity.Pool
	// ShownClasses is the number of classes of a pool, heaviest first, in its forecasts: see forecaster.Config.Shown.
	ShownClasses int
	// Events are the calendar of all pools; see forecaster.Config.Events.
	Events []forecaster.Event
	// MaxPools bounds all pools: the listed ones and copies of DefaultPool.
	MaxPools int
}

// Pool is the configured pool of that name, or else the default pool.
func (c *Config) Pool(name string) (pool capacity.Pool, ok bool) {
	if i := slices.IndexFunc(c.Pools, func(p capacity.Pool) bool { return p.Name == name }); i >= 0 {
		return c.Pools[i], true
	}
	if c.DefaultPool == nil {
		return pool, false
	}
	pool = *c.DefaultPool
	pool.Name = name
	return pool, true
}

// rememberedIDs bounds the request ids by which duplicates are found.
const rememberedIDs = 1 << 18

// DefaultConfig has no pools: add at least one, or a DefaultPool.
func DefaultConfig() Config {
	return Config{
		Clock: WallClock, Features: features.DefaultConfig(), Decision: alerting.DefaultConfig(),
		MaxPools: 64,
	}
}

// Output is the result of one tick. Windows, minutes and calibrators are valid until the next one; the rest for good.
type Output struct {
	Tick     time.Time // the origin: forecasts start at it, windows before it are applied
	Sequence uint64    // of the newest message applied

	Windows []features.Window     // first counts of the minute before Tick, amended windows, and windows that settled
	Minutes []features.PoolMinute // the minute before Tick of each known pool, ordered by name
	// Producers are the known senders of telemetry, ordered by name.
	Producers []features.ProducerState
	// The rest is nil on ticks that do not decide.
	Pools  []PoolOutput     // ordered by name
	Alerts []alerting.Alert // raised, still firing, or resolved at this tick
}

// PoolOutput is the result of one tick for one pool. If the tick was decided before the state was lost, it has only the
// forecast: see Resume.
type PoolOutput struct {
	Pool       string
	Forecast   forecaster.PoolForecast
	Projection *forecaster.Projection
	Trusted    capacity.Trusted                // the service rates that a replica is assumed to have, and why
	Limits     []forecaster.ResourceProjection // of the whole pool, per second; see forecaster.ProjectLimits
	Decision   *alerting.Decision
	Calibrator *forecaster.Calibrator // of Projection, read-only
}

// Decisions are those of all pools.
func (o *Output) Decisions() (out []*alerting.Decision) {
	for i := range o.Pools {
		if d := o.Pools[i].Decision; d != nil {
			out = append(out, d)
		}
	}
	return out
}

// Pipeline applies the log and holds the state. It is not safe for concurrent use: one goroutine owns it.
type Pipeline struct {
	cfg        Config
	state      state
	dedup      *ingest.Deduper
	aggregator *features.Aggregator
	forecaster *forecaster.Forecaster
	pools      []*poolEntry // ordered by name
	byName     map[string]*poolEntry
}

// poolEntry is the state of a pool, except its windows and forecasts. The exported fields are saved.
type poolEntry struct {
	Name          string `cbor:"1,keyasint"`
	AfterDecision `cbor:"2,keyasint"`
	Service       capacity.Service      `cbor:"3,keyasint"` // of its replicas, learned
	Calibrator    forecaster.Calibrator `cbor:"5,keyasint"`
	Signals       alerting.Signals      `cbor:"6,keyasint"`

	pool capacity.Pool
}

// AfterDecision is the state after a decision that the next one of its pool needs, without that of models.
type AfterDecision struct {
	Warmup          capacity.Warmup `cbor:"1,keyasint"`
	Decision        alerting.State  `cbor:"2,keyasint"`
	Issued          []issue         `cbor:"3,keyasint"`          // newest last, at most maxIssues
	LastReadyAck    time.Time       `cbor:"4,keyasint,omitzero"` // of an autoscaler; to the second
	ReplicaRequests replicaRequests `cbor:"5,keyasint"`
}

// Counters of what was applied; they are part of the state.
type Counters struct {
	Records uint64                   `cbor:"1,keyasint" json:"records"`           // counted requests, sums, replica reports and acks
	Refused map[ingest.Reason]uint64 `cbor:"2,keyasint" json:"refused"`           // by reason, including decoding errors
	Ignored uint64                   `cbor:"4,keyasint,omitempty" json:"ignored"` // valid records without demand
}

// New returns an empty Pipeline.
func New(cfg Config) *Pipeline {
	services := map[string]features.Service{} // addPool adds those of pools
	maps.Copy(services, cfg.Features.Service)
	cfg.Features.Service = services
	p := &Pipeline{
		cfg: cfg,
		state: state{
			Version:   snapshotVersion,
			Clock:     cfg.Clock,
			Time:      newTimekeeper(&cfg),
			Counters:  Counters{Refused: map[ingest.Reason]uint64{}},
			Producers: features.NewProducers(cfg.Features, cfg.Clock == WallClock, nil),
		},
		dedup:      ingest.NewDeduper(rememberedIDs),
		aggregator: features.New(cfg.Features),
		forecaster: forecaster.New(cfg.forecasterConfig()),
		byName:     map[string]*poolEntry{},
	}
	for _, c := range cfg.Pools {
		p.addPool(c)
	}
	return p
}

func (c *Config) forecasterConfig() forecaster.Config {
	return forecaster.Config{
		Settle: c.Features.Revise, StaleAfter: c.Features.StaleAfter,
		Shown: c.ShownClasses, Events: c.Events,
		Zone: func(name string) *time.Location {
			pool, _ := c.Pool(name)
			return pool.Zone
		},
	}
}

// Apply applies one batch. It runs the ticks that become due, in order with the records, and calls emit with each
// Output. Refused records are appended to b.Refused.
func (p *Pipeline) Apply(b *ingest.Batch, emit func(*Output)) {
	if b.Sequence > 0 {
		p.state.Sequence = b.Sequence
	}
	p.state.Time.received(b.ReceivedAt)
	if w := b.Watermark; w == nil || !p.state.Time.lateWatermark(w) {
		p.run(p.state.Time.overdue(), false, emit) // no tick decides
	}
	p.state.Counters.Ignored += uint64(b.Ignored)
	for i := range b.Refused {
		p.state.Counters.Refused[b.Refused[i].Reason]++
	}
	p.state.Producers.Begin(b.Source, b.ReceivedAt)
	for i := range b.Requests {
		r := &b.Requests[i]
		reason := p.request(r, emit)
		p.state.Producers.Request(r, reason)
		p.tally(b, reason, r.Pool, r.ReplicaName, r.EventTime())
	}
	for i := range b.Sums {
		s := &b.Sums[i]
		reason := p.sum(s, emit)
		p.state.Producers.Sum(s, reason)
		p.tally(b, reason, s.Pool, "", s.Start)
	}
	for i := range b.Replicas {
		r := &b.Replicas[i]
		reason := p.replica(r, emit)
		p.state.Producers.Replica(r, reason)
		p.tally(b, reason, r.Pool, r.Name, r.At)
	}
	for i := range b.Acks {
		a := &b.Acks[i]
		p.tally(b, p.ack(a), a.Pool, "", a.At)
	}
	for i := range b.Histories {
		p.history(b, &b.Histories[i])
	}
	if w := b.Watermark; w != nil {
		if reason := p.watermark(w, emit); reason != "" {
			p.tally(b, reason, w.Pool, "", w.At)
		}
	}
}

func (p *Pipeline) request(r *ingest.Request, emit func(*Output)) ingest.Reason {
	if r.ID == "" && r.Phase == ingest.PhaseArrived {
		return ingest.ReasonMissingField
	}
	if _, reason := p.admit(r.Pool, r.EventTime(), emit); reason != "" {
		return reason
	}
	before, duplicate, ended := p.state.Calls.register(r, p.dedup)
	switch {
	case duplicate:
		return ingest.ReasonDuplicate
	case ended:
		return ""
	}
	if class, ok := p.cfg.Classify.Class(r); ok {
		r.Class = class
	}
	return p.aggregator.AddAttempt(r, before)
}

func (p *Pipeline) sum(s *ingest.Sum, emit func(*Output)) ingest.Reason {
	if _, reason := p.admit(s.Pool, s.Start, emit); reason != "" {
		return reason
	}
	return p.aggregator.AddSum(s)
}

func (p *Pipeline) replica(r *ingest.Replica, emit func(*Output)) ingest.Reason {
	e, reason := p.admit(r.Pool, r.At, emit)
	if reason != "" {
		return reason
	}
	life := p.aggregator.AddReplica(r)
	if !p.resuming(e) {
		e.learnWarmup(r, life, p.decisionConfig(e).Mode)
	}
	return ""
}

// ack applies an autoscaler's acknowledgement: a ready replica teaches the warm-up lag. It refuses an ack of an event
// that is not among the newest maxIssues of the pool, and one from the future: until then no replica would teach a lag.
func (p *Pipeline) ack(a *ingest.Ack) ingest.Reason {
	e := p.byName[a.Pool]
	switch {
	case e == nil && p.serves(a.Pool): // nothing has been decided for it
		return ingest.ReasonUnknownEvent
	case e == nil:
		return ingest.ReasonUnknownPool
	case p.cfg.Clock == WallClock && !p.state.Time.plausible(a.At):
		return ingest.ReasonFuture
	case p.resuming(e):
		return ""
	}
	generation := a.Generation
	if generation == ingest.Unknown { // the id ends in the generation
		generation = alerting.GenerationOf(a.Pool, a.EventID)
	}
	asked, ok := e.issuedAt(generation)
	switch {
	case !ok:
		return ingest.ReasonUnknownEvent
	case a.Stage == ingest.AckReady && !asked.IsZero():
		e.Warmup.Observe(a.At.Sub(asked))
		e.LastReadyAck = a.At.UTC().Truncate(time.Second)
	}
	return ""
}

// watermark moves time. That of a pool means that its silence until then was zero traffic, if it ever had telemetry. On
// the event clock a minute ends when the watermarks of all pools have passed it, or after the lateness: the records of
// the other pools may come a moment later.
func (p *Pipeline) watermark(w *ingest.Watermark, emit func(*Output)) ingest.Reason {
	switch {
	case w.Pool != "" && !p.serves(w.Pool):
		return ingest.ReasonUnknownPool
	case !p.state.Time.plausible(w.At):
		return ingest.ReasonFuture
	case p.byName[w.Pool] != nil:
		p.aggregator.AddWatermark(w)
	}
	if w.Pool == "" || p.cfg.Clock == EventClock {
		at := w.At
		if w.Pool != "" && !p.aggregator.Passed(at) {
			at = at.Add(-p.cfg.Features.Lateness)
		}
		p.run(p.state.Time.watermarkTick(at), true, emit)
	}
	return ""
}

// admit moves time to that of a record, if records move it, runs the ticks that become due, and returns the pool. It
// refuses an unknown pool and a time too far ahead.
func (p *Pipeline) admit(pool string, at time.Time, emit func(*Output)) (*poolEntry, ingest.Reason) {
	e := p.byName[pool]
	switch {
	case e == nil && !p.serves(pool):
		return nil, ingest.ReasonUnknownPool
	case !p.state.Time.plausible(at):
		return nil, ingest.ReasonFuture
	case p.cfg.Clock == EventClock || !p.state.Time.Live: // without watermarks, loaded history is learned minute by minute
		p.run(p.state.Time.recordTick(at), p.cfg.Clock == EventClock, emit)
	}
	if e == nil {
		e = p.admitPool(pool)
	}
	return e, ""
}

// tally counts a record, or refuses it if there is a reason.
func (p *Pipeline) tally(b *ingest.Batch, reason ingest.Reason, pool, replica string, at time.Time) {
	if reason == "" {
		p.state.Counters.Records++
		return
	}
	p.refuse(b, reason, pool, replica, p.explain(reason, pool, at))
}

func (p *Pipeline) refuse(b *ingest.Batch, reason ingest.Reason, pool, replica, detail string) {
	p.state.Counters.Refused[reason]++
	b.Refused = append(b.Refused, ingest.Refusal{Reason: reason, Detail: detail, Producer: cmp.Or(b.Source, replica), Pool: pool})
}

// explain says for people why a record was refused, and what to do.
func (p *Pipeline) explain(reason ingest.Reason, pool string, at time.Time) string {
	stamp := at.UTC().Format(time.RFC3339)
	switch reason {
	case ingest.ReasonUnknownPool:
		if p.cfg.DefaultPool != nil {
			return fmt.Sprintf("pool %q is one too many for default_pool: max_pools is %d; raise it, or add the pool under pools", pool, p.cfg.MaxPools)
		}
		return fmt.Sprintf("pool %q is not in the configuration: add it under pools, or set default_pool", pool)
	case ingest.ReasonFuture:
		return fmt.Sprintf("event time %s is too far in the future: set the producer's clock right", stamp)
	case ingest.ReasonLate:
		age := value.Minutes(value.Number(p.state.Time.Last.Sub(at).Minutes()))
		return fmt.Sprintf("event time %s is %s before the newest minute, and minutes are amended for %s: set the producer's clock right, publish sooner, or raise features.revise",
			stamp, age, p.cfg.Features.Revise)
	case ingest.ReasonUnknownEvent:
		return fmt.Sprintf("the acknowledgement of %s names none of the newest %d events of pool %q: send event_id and generation as they are in the event", stamp, maxIssues, pool)
	case ingest.ReasonMissingField:
		return "id is missing: a record of an arrival needs one, so that its end is found"
	case ingest.ReasonDuplicate:
		return "this id and attempt was counted before: the record was sent twice, or the producer reuses ids"
	}
	return ""
}

// history teaches the models demand from before telemetry. It does not move time. It is refused if the models already
// know that time: histories come first.
func (p *Pipeline) history(b *ingest.Batch, h *ingest.History) {
	if !p.serves(h.Pool) {
		p.refuse(b, ingest.ReasonNoHistory, h.Pool, "", p.explain(ingest.ReasonUnknownPool, h.Pool, h.Start))
	} else if h.Class != features.TotalClass {
		p.refuse(b, ingest.ReasonNoHistory, h.Pool, "", "a history is of a whole pool: set its class to *")
	} else if err := p.forecaster.Backfill(h.Pool, h.Dimension, h.Start, h.Values); err != nil {
		p.refuse(b, ingest.ReasonNoHistory, h.Pool, "", err.Error())
	} else {
		p.admitPool(h.Pool)
		p.state.Counters.Records++
	}
}

// run runs the ticks after the last one up to and including last. In a gap longer than maxCatchUp it ticks
// features.revise minutes, and then only the last maxCatchUp. Without decide no tick decides.
func (p *Pipeline) run(last time.Time, decide bool, emit func(*Output)) {
	first := p.state.Time.Last.Add(features.Minute)
	for t := first; !t.After(last); t = t.Add(features.Minute) {
		if resume := last.Add(-maxCatchUp); t.Before(resume) && t.Sub(first) > p.cfg.Features.Revise {
			t = resume
		}
		// On the wall clock only the newest tick decides: decisions for past minutes are useless.
		p.tick(t, decide && (p.cfg.Clock == EventClock || t.Equal(last)), emit)
	}
}

// tick ends the minute before t: windows close and models learn. With decide, it also forecasts, projects and decides.
func (p *Pipeline) tick(t time.Time, decide bool, emit func(*Output)) {
	p.state.Time.Last = t
	windows, minutes := p.aggregator.Close(t)
	out := Output{Tick: t, Sequence: p.state.Sequence, Windows: windows, Minutes: minutes, Producers: p.state.Producers.Tick(t, minutes)}
	p.updatePools(windows, minutes)
	p.forecaster.Observe(windows, minutes)
	if decide {
		p.decide(t, &out)
	}
	emit(&out)
	if decide {
		p.forget(t, minutes)
	}
}

// forget drops the pools that are not listed and have been silent for ClassTTL, with their models. So names that never
// come again, as of canaries, do not fill MaxPools.
func (p *Pipeline) forget(t time.Time, minutes []features.PoolMinute) {
	newest := map[string]time.Time{}
	for _, e := range p.pools {
		newest[e.Name] = e.Decision.LastTick // of a pool without telemetry: it is old if nothing is decided
	}
	for i := range minutes {
		newest[minutes[i].Pool] = minutes[i].LastEvent
	}
	for name, at := range newest {
		if p.listed(name) || t.Sub(at) <= p.cfg.Features.ClassTTL || !p.aggregator.Forget(name) {
			continue
		}
		p.forecaster.Forget(name)
		p.pools = slices.DeleteFunc(p.pools, func(e *poolEntry) bool { return e.Name == name })
		delete(p.byName, name)
		delete(p.cfg.Features.Service, name)
	}
}

func (p *Pipeline) listed(pool string) bool {
	return slices.ContainsFunc(p.cfg.Pools, func(c capacity.Pool) bool { return c.Name == pool })
}

func (p *Pipeline) decide(t time.Time, out *Output) {
	var conditions []alerting.Condition
	out.Pools = []PoolOutput{}
	resuming := false
	for _, demand := range p.forecaster.Forecast(t) {
		e := p.byName[demand.Pool]
		if e == nil {
			continue // the models of a pool that is no longer configured stay for ClassTTL, for when it is configured again
		}
		out.Pools = append(out.Pools, PoolOutput{Pool: demand.Pool, Forecast: demand, Calibrator: &e.Calibrator})
		result := &out.Pools[len(out.Pools)-1]
		load := demand.Load() // replicas serve all attempts
		e.Calibrator.Learn(t, func(dimension string, minute int64) float64 { return p.forecaster.Load(e.Name, dimension, minute) })
		if !t.After(e.Decision.LastTick) {
			e.Calibrator.Issue(load)
			resuming = true
			continue
		}
		cfg := p.decisionConfig(e)
		pool := p.project(t, e, load, cfg, result)
		e.Calibrator.Issue(load)
		in := alerting.Input{
			Projection: *result.Projection, Forecast: load, Pool: pool, Minute: load.Minute, Sequence: p.state.Sequence, Signals: e.Signals,
			Limits: result.Limits, Basis: alerting.NewBasis(&e.pool, &pool.Warmup, result.Trusted.Contradictions),
		}
		before := e.Decision.LastDesired
		var decision alerting.Decision
		decision, e.Decision = alerting.Decide(t, in, e.Decision, cfg)
		result.Decision = &decision
		e.recordIssue(&decision)
		e.ReplicaRequests.update(&decision, before)
		conditions = append(conditions, alerting.Conditions(&decision, load, cfg)...)
	}
	if !resuming {
		out.Alerts = p.state.Alerts.Update(t, conditions)
	}
}

// project sets the load of a pool against its replicas, and puts the result into out. It returns the pool with the rates
// and the warm-up lag that are used. It does not change the state.
func (p *Pipeline) project(t time.Time, e *poolEntry, f *forecaster.PoolForecast, cfg alerting.Config, out *PoolOutput) capacity.Pool {
	pool := e.pool
	pool.Warmup = e.Warmup.Given(pendingAges(t, &f.Minute.State, e.ReplicaRequests.Open))
	trusted := pool.Trust(&e.Service, f.Minute.State.KVCapacityTokens, t)
	pool.Rates = trusted.Rates
	supply, _ := alerting.CurrentSupply(t, f.Minute, &pool, e.Decision, cfg.Mode)
	window := forecaster.LeadTime(&pool.Warmup) + cfg.Hold
	project := func(role capacity.Role, supply forecaster.Supply) forecaster.Projection {
		of := alerting.Serving{Pool: &pool, Trusted: &trusted, Role: role}
		x := forecaster.Project(f, of, &pool.Warmup, supply, pool.ReservesOf(role).Failure, window, &e.Calibrator)
		x.Drivers = p.forecaster.Drivers(f.Pool, x.Binding, 3)
		return x
	}
	projection := project(capacity.DecodeRole, supply)
	if pool.Disaggregated {
		projection.Prompts = new(project(capacity.PrefillRole, alerting.PrefillSupply(t, &pool, &e.Decision)))
	}
	projection.Warnings = append(projection.Warnings, trusted.Warnings...)
	out.Projection, out.Trusted = &projection, trusted
	out.Limits = forecaster.ProjectLimits(f, limitsOf(&pool), window)
	return pool
}

// Unsettled are the minutes before the last tick that can still change. It changes nothing.
func (p *Pipeline) Unsettled() []features.Window { return p.aggregator.Unsettled() }

// decisionConfig is the configuration of a pool's decisions; a pool may have its own mode.
func (p *Pipeline) decisionConfig(e *poolEntry) alerting.Config {
	cfg := p.cfg.Decision
	cfg.Mode = cmp.Or(alerting.Mode(e.pool.Mode), cfg.Mode)
	return cfg
}

// serves reports whether records of a pool are accepted: it has been added, or may be.
func (p *Pipeline) serves(name string) bool {
	return p.byName[name] != nil || p.cfg.DefaultPool != nil && len(p.pools) < p.cfg.MaxPools && name != ""
}

// admitPool returns a pool, or adds a copy of the default one for a new name; nil if the pool is not served.
func (p *Pipeline) admitPool(name string) *poolEntry {
	if e := p.byName[name]; e != nil || !p.serves(name) {
		return e
	}
	c, _ := p.cfg.Pool(name) // a copy of the default one
	return p.addPool(c)
}

func (p *Pipeline) addPool(c capacity.Pool) *poolEntry {
	// Stated rates give requests without times a KV occupancy. A backtest sets others, because it sizes its pool by the
	// peak of a trace, which forecasts must not know.
	if _, set := p.cfg.Features.Service[c.Name]; !set {
		p.cfg.Features.Service[c.Name] = features.Service{PrefillTokensPerS: c.Rates.PrefillTokensPerS, ITL: c.ITL}
	}
	e := &poolEntry{Name: c.Name, pool: c, AfterDecision: AfterDecision{Warmup: c.Warmup}}
	i, _ := slices.BinarySearchFunc(p.pools, c.Name, func(e *poolEntry, name string) int { return strings.Compare(e.Name, name) })
	p.pools, p.byName[c.Name] = slices.Insert(p.pools, i, e), e
	return e
}

// Shown reports whether a class is among the heaviest of its pool, which have forecasts in the output.
func (p *Pipeline) Shown(key features.Key) bool { return p.forecaster.Shown(key) }

// Sequence is the sequence of the newest message applied.
func (p *Pipeline) Sequence() uint64 { return p.state.Sequence }

// ResetSequence is for a new stream, of which no message has been applied.
func (p *Pipeline) ResetSequence() { p.state.Sequence = 0 }

// LastTick is the newest tick; zero before the first.
func (p *Pipeline) LastTick() time.Time { return p.state.Time.Last }

// Counters returns the counters; the map is read-only.
func (p *Pipeline) Counters() Counters { return p.state.Counters }

// Omissions count what the parts have dropped since the first start, to stay within their bounds.
type Omissions struct {
	Features          features.Counters
	IDsForgotten      uint64 // by the deduper
	ConditionsDropped uint64 // by the alert tracker
	ProducersRefused  uint64 // records of producers beyond the bound
}

// Omissions returns the counts.
func (p *Pipeline) Omissions() Omissions {
	return Omissions{
		Features: p.aggregator.Count, IDsForgotten: p.dedup.Forgotten, ConditionsDropped: p.state.Alerts.Dropped,
		ProducersRefused: p.state.Producers.Refused,
	}
}
