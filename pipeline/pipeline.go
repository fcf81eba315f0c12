// Package pipeline is the whole flow in one place: it applies an event log, record by record.
//
//	state', outputs = step(state, event-or-tick)
//
// The daemon, the backtest and the tests run this same code; only the source of events and of time differ. Nothing in
// here or below it reads a clock, opens a socket, logs, or starts a goroutine.
//
// Invariants: applying the same batches in the same order gives the same state and the same outputs, byte for byte, also
// when a snapshot is taken and restored in between. Units: a tick is a whole minute. Bounds: those of the parts
// (features.Config for classes and replicas, ingest.Deduper for ids); nothing else grows.
package pipeline

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// Clock says where time comes from.
type Clock string

// The clocks. On the wall clock the log itself carries a watermark each minute; on the event clock time is how far the
// records have come, so that a trace runs faster than life.
const (
	WallClock  Clock = "wall"
	EventClock Clock = "event"
)

// Config is everything a Pipeline depends on.
type Config struct {
	Clock Clock
	// Every is the spacing of forecasts and decisions, a multiple of a minute; windows are closed and models learn each
	// minute whatever it is. Zero means each minute.
	Every    time.Duration
	Features features.Config
	Classify features.ClassifyConfig
	Decision alerting.Config
	// Pools are known by name; telemetry of any other pool is refused, or served by a copy of DefaultPool when set.
	Pools       []capacity.Pool
	DefaultPool *capacity.Pool
	// Owns, where it is set, says whether a pool belongs to this pipeline; telemetry of others is refused.
	Owns func(pool string) bool
	// DedupEntries bounds how many request ids are remembered.
	DedupEntries int
	// PrefixBlocks bounds the prompt blocks remembered per pool, by which the cached tokens of requests that report block
	// hashes in their place are estimated; where the pool's own caches hold fewer, those bound them. 0 leaves the cached
	// tokens unknown.
	PrefixBlocks int
	// ShownClasses is how many classes of a pool, the heaviest, are in its forecasts; see forecaster.Config.Shown.
	ShownClasses int
	// Events are the calendar of what is known to come, of all pools; see forecaster.Config.Events.
	Events []forecaster.Event
	// MaxPools bounds the pools that DefaultPool admits.
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

// DefaultConfig has no pools: add at least one, or a DefaultPool.
func DefaultConfig() Config {
	return Config{
		Clock: WallClock, Every: features.Minute, Features: features.DefaultConfig(), Decision: alerting.DefaultConfig(),
		DedupEntries: 1 << 18, PrefixBlocks: 1 << 17, MaxPools: 64,
		ShownClasses: forecaster.DefaultShown,
	}
}

// Output is what one tick produced. Its slices are valid until the next tick.
type Output struct {
	Tick     time.Time // the origin: windows before it are in, forecasts start at it
	Sequence uint64    // of the newest message applied

	Windows []features.Window // first counts of the minute before Tick, amended windows, and windows that settled
	Pools   []features.PoolMinute
	// Producers are those who send telemetry, as far as they can be told apart, ordered by name.
	Producers []features.ProducerState
	// The rest is empty on ticks that are no multiple of Config.Every.
	Forecasts   []forecaster.PoolForecast
	Projections []forecaster.Projection
	Decisions   []alerting.Decision
	Services    []PoolService    // by which the projections were made
	Prompts     []PoolPrompts    // of those that were decided for
	Alerts      []alerting.Alert // raised, still firing, or resolved at this tick
}

// PoolService is what a pool's replicas are taken to serve, and why.
type PoolService struct {
	Pool string
	capacity.Trusted
	Curve  *capacity.ServiceCurve          // of one replica; nil when it is not known
	Limits []forecaster.ResourceProjection // of the whole pool, a second, in place of a replica's; see forecaster.ProjectLimits
}

// PoolPrompts is how long the prompts of a pool's classes are. It is the pipeline's own until the next tick.
type PoolPrompts struct {
	Pool    string
	Classes alerting.Prompts
}

// Pipeline applies the log and holds the state. It is not safe for concurrent use: one goroutine owns it.
type Pipeline struct {
	// Stage is told which part of a tick begins: close, learn, forecast or decide. It is no part of the state, and changes nothing.
	Stage func(name string)

	cfg        Config
	time       timekeeper
	dedup      *ingest.Deduper
	calls      calls
	aggregator *features.Aggregator
	producers  *features.Producers
	forecaster *forecaster.Forecaster
	pools      []*poolEntry // ordered by name
	board      *alerting.Board
	sequence   uint64
	counters   Counters
}

// poolEntry is what is kept of a pool beside its windows and forecasts.
type poolEntry struct {
	pool       capacity.Pool
	warmup     capacity.Warmup
	decision   alerting.State
	calibrator forecaster.Calibrator
	line       alerting.Line
	signals    alerting.Signals
	prompts    alerting.Prompts
	issued     []issue   // newest last, at most issuesKept
	answered   time.Time // when an autoscaler last said that a replica is ready; to the second
	asks       asks
	prefix     prefix
	service    service
}

// asks are the decisions' requests for replicas that are not ready yet.
type asks struct {
	Open    []time.Time `cbor:"1,keyasint,omitempty"` // one a replica, ascending, at most asksKept
	Learned time.Time   `cbor:"2,keyasint,omitzero"`  // when a replica that was asked for last became ready; to the second
}

const (
	// answersLast is how long what replicas report of their own starts is left out after an autoscaler's answer, or a replica
	// that was asked for: those tell the whole lag, from the ask on.
	answersLast = 24 * time.Hour
	asksKept    = 256
	// askTeaches is the age beyond which an ask teaches nothing when a replica becomes ready: nobody may have obeyed it.
	askTeaches = time.Hour
)

// decided follows a decision: was is what the one before asked for. More that is asked for is a new ask; less takes the newest
// asks back; and no more are open than replicas are missing.
func (a *asks) decided(d *alerting.Decision, was int) {
	if d.Mode != alerting.Active || d.Stale {
		a.Open = nil
		return
	}
	open := slices.Clone(a.Open)
	if d.Desired < was {
		open = open[:max(0, len(open)-(was-d.Desired))]
	}
	for n := max(was, d.Ready); n < d.Desired && len(open) < asksKept; n++ {
		open = append(open, d.Tick.UTC())
	}
	a.Open = open[max(0, len(open)-max(0, d.Desired-d.Ready)):]
}

// came is how long an ask took until a replica became ready, the ask being over; 0 when there is none, when the replica's
// process started before it, or when it is too old to say. The ask is the newest one before the replica was first pending, where
// that was reported for a time of warmed, else the oldest.
func (a *asks) came(r *ingest.Replica, warmed time.Duration) time.Duration {
	at := 0
	if warmed > 0 {
		pending := r.At.Add(-warmed)
		n, _ := slices.BinarySearchFunc(a.Open, pending.Add(1), time.Time.Compare)
		at = max(0, n-1)
	}
	if len(a.Open) == 0 || !r.StartedAt.IsZero() && r.StartedAt.Before(a.Open[at]) {
		return 0
	}
	lag := r.At.Sub(a.Open[at])
	a.Open = slices.Delete(slices.Clone(a.Open), at, at+1)
	if lag > askTeaches {
		return 0
	}
	a.Learned = r.At.UTC().Truncate(time.Second)
	return lag
}

// start learns the warm-up lag from a replica's reports: from the ask to the first report that it is ready. Where nobody is known
// to obey decisions, it is the time that the replica was pending. The time that its process took to start is only the end of
// the lag: it counts where asks teach nothing, and only when it is more than is expected anyway.
func (e *poolEntry) start(r *ingest.Replica, life features.ReplicaLife, mode alerting.Mode) {
	var lag time.Duration
	if life.New {
		lag = e.asks.came(r, life.Warmed)
	}
	switch {
	case !e.answered.IsZero() && r.At.Sub(e.answered) < answersLast:
		return
	case mode != alerting.Active && life.Warmed > 0:
		lag = life.Warmed
	}
	if lag > 0 {
		e.warmup.Observe(lag)
		return
	}
	if !life.Started || !e.asks.Learned.IsZero() && r.At.Sub(e.asks.Learned) < answersLast {
		return
	}
	if took := time.Duration(r.StartupSeconds * float64(time.Second)); took > e.warmup.Quantile(0.5) {
		e.warmup.Observe(took)
	}
}

// waiting is how long ago each replica that reports to be on its way was asked for: by the asks, the oldest first, else since its
// first report.
func waiting(t time.Time, s *features.PoolState, asked []time.Time) []time.Duration {
	if !s.Observed {
		return nil
	}
	var ages []time.Duration
	for i, since := range s.PendingSince {
		if i < len(asked) && asked[i].Before(since) && t.Sub(asked[i]) <= askTeaches {
			since = asked[i]
		}
		ages = append(ages, t.Sub(since))
	}
	return ages
}

// issue is when the replicas that a generation of advice asks for were first asked for.
type issue struct {
	Generation int64     `cbor:"1,keyasint"`
	At         time.Time `cbor:"2,keyasint"`
}

const issuesKept = 64

func (e *poolEntry) remember(d *alerting.Decision) {
	if !d.Publish || d.Action == alerting.ScaleIn || d.Action == alerting.Hold && d.Desired <= d.Ready {
		return // nothing that an answer could say took time
	}
	if len(e.issued) == issuesKept {
		e.issued = append(e.issued[:0], e.issued[1:]...)
	}
	at := d.Tick
	if !d.AskedAt.IsZero() {
		at = d.AskedAt // a renewal asks for nothing new, nor does a hold while replicas are on their way
	}
	e.issued = append(e.issued, issue{d.Generation, at})
}

func (e *poolEntry) asked(generation int64) (time.Time, bool) {
	for _, x := range e.issued {
		if x.Generation == generation {
			return x.At, true
		}
	}
	return time.Time{}, false
}

// Counters of what was applied; they are part of the state.
type Counters struct {
	Records uint64                   `cbor:"1,keyasint" json:"records"` // requests, sums, replica reports and acks that were counted
	Refused map[ingest.Reason]uint64 `cbor:"2,keyasint" json:"refused"` // by reason, decoders' refusals included
	Ticks   uint64                   `cbor:"3,keyasint" json:"ticks"`
	Ignored uint64                   `cbor:"4,keyasint,omitempty" json:"ignored"` // sound records that carry no demand
}

// New returns an empty Pipeline.
func New(cfg Config) *Pipeline {
	cfg.Features.Service = services(&cfg)
	p := &Pipeline{
		Stage: func(string) {},
		cfg:   cfg, time: newTimekeeper(&cfg),
		dedup:      ingest.NewDeduper(cfg.DedupEntries),
		calls:      newCalls(),
		aggregator: features.New(cfg.Features),
		producers:  features.NewProducers(cfg.producers()),
		forecaster: forecaster.New(cfg.forecasterConfig()),
		board:      alerting.NewBoard(cfg.Decision),
		counters:   Counters{Refused: map[ingest.Reason]uint64{}},
	}
	for _, c := range cfg.Pools {
		p.addPool(c)
	}
	return p
}

// services are the pools' service rates, by which requests without times are given a KV occupancy.
func services(cfg *Config) map[string]features.Service {
	out := map[string]features.Service{}
	for _, c := range cfg.Pools {
		out[c.Name] = features.Service{PrefillTokensPerS: c.Rates.PrefillTokensPerS, ITL: c.Rates.ITL}
	}
	for name, s := range cfg.Features.Service {
		out[name] = s
	}
	return out
}

func (c *Config) forecasterConfig() forecaster.Config {
	f := forecaster.Config{Settle: c.Features.Revise, StaleAfter: c.Features.StaleAfter, MaxClasses: c.Features.MaxClasses, Shown: c.ShownClasses, Zones: map[string]*time.Location{}, Events: c.Events}
	for i := range c.Pools {
		f.Zones[c.Pools[i].Name] = c.Pools[i].Zone
	}
	if c.DefaultPool != nil {
		f.Zone = c.DefaultPool.Zone
	}
	return f
}

func (c *Config) producers() features.ProducersConfig {
	return features.ProducersConfig{ByReceipt: c.Clock == WallClock, Lateness: c.Features.Lateness, StaleAfter: c.Features.StaleAfter}
}

// Apply applies one batch. Ticks that become due on the way are run in their place among the records, each handing its
// Output to emit. Records that could not be used are appended to b.Refused.
func (p *Pipeline) Apply(b *ingest.Batch, emit func(*Output)) {
	if b.Sequence > 0 {
		p.sequence = b.Sequence
	}
	p.time.received(b.ReceivedAt)
	if w := b.Watermark; w == nil || !p.time.lateWatermark(w) {
		p.run(p.time.overdue(), false, emit)
	}
	p.counters.Ignored += uint64(b.Ignored)
	for i := range b.Refused {
		p.counters.Refused[b.Refused[i].Reason]++
	}
	p.producers.Begin(b.Source, b.ReceivedAt)
	for i := range b.Requests {
		r := &b.Requests[i]
		reason := p.request(r, emit)
		p.producers.Request(r, reason)
		if reason != "" {
			p.refuse(b, reason, r.Pool, r.ReplicaName, r.EventTime(), func() []byte { return codec.AppendRequest(nil, r) })
		}
	}
	for i := range b.Sums {
		s := &b.Sums[i]
		reason := p.sum(s, emit)
		p.producers.Sum(s, reason)
		if reason != "" {
			p.refuse(b, reason, s.Pool, "", s.Start, func() []byte { return codec.AppendSum(nil, s) })
		}
	}
	for i := range b.Replicas {
		r := &b.Replicas[i]
		reason := p.replica(r, emit)
		p.producers.Replica(r, reason)
		if reason != "" {
			p.refuse(b, reason, r.Pool, r.Name, r.At, func() []byte { return codec.AppendReplica(nil, r) })
		}
	}
	for i := range b.Acks {
		a := &b.Acks[i]
		if reason := p.ack(a); reason != "" {
			p.refuse(b, reason, a.Pool, "", a.At, func() []byte { return codec.AppendAck(nil, a) })
		}
	}
	for i := range b.Histories {
		p.history(b, &b.Histories[i])
	}
	if w := b.Watermark; w != nil {
		if reason := p.watermark(w, emit); reason != "" {
			p.refuse(b, reason, w.Pool, "", w.At, func() []byte { return codec.AppendWatermark(nil, w) })
		}
	}
}

func (p *Pipeline) request(r *ingest.Request, emit func(*Output)) ingest.Reason {
	e := p.entry(r.Pool)
	if e == nil {
		return ingest.ReasonUnknownPool
	}
	if reason := p.reach(r.EventTime(), emit); reason != "" {
		return reason
	}
	if p.dedup.Seen(r.Pool, r.ID, r.Attempt, r.Phase) {
		return ingest.ReasonDuplicate
	}
	e.prefix.complete(r, p.cfg.PrefixBlocks)
	p.classify(e, r)
	return p.counted(p.aggregator.AddAttempt(r, p.calls.again(r, p.dedup)))
}

// classify gives a request its class, where rules have one for it.
func (p *Pipeline) classify(e *poolEntry, r *ingest.Request) {
	if class, ok := p.cfg.Classify.Class(r); ok {
		r.Class = class
	}
}

func (p *Pipeline) sum(s *ingest.Sum, emit func(*Output)) ingest.Reason {
	if p.entry(s.Pool) == nil {
		return ingest.ReasonUnknownPool
	}
	if reason := p.reach(s.Start, emit); reason != "" {
		return reason
	}
	return p.counted(p.aggregator.AddSum(s))
}

func (p *Pipeline) replica(r *ingest.Replica, emit func(*Output)) ingest.Reason {
	e := p.entry(r.Pool)
	if e == nil {
		return ingest.ReasonUnknownPool
	}
	if reason := p.reach(r.At, emit); reason != "" {
		return reason
	}
	life := p.aggregator.AddReplica(r)
	if !p.resuming(e) {
		e.start(r, life, p.decision(e).Mode)
	}
	return p.counted("")
}

// ack takes an autoscaler's answer: a replica that became ready after an event teaches the warm-up lag.
func (p *Pipeline) ack(a *ingest.Ack) ingest.Reason {
	e := p.entry(a.Pool)
	if e == nil {
		return ingest.ReasonUnknownPool
	}
	if a.Stage == ingest.AckReady && !p.resuming(e) {
		generation := a.Generation
		if generation == ingest.Unknown { // the id alone will do: it ends in the generation
			generation, _ = alerting.GenerationOf(a.Pool, a.EventID)
		}
		if asked, ok := e.asked(generation); ok {
			e.warmup.Observe(a.At.Sub(asked))
			e.answered = a.At.UTC().Truncate(time.Second)
		}
	}
	return p.counted("")
}

// watermark moves time, and says of a pool that its silence until then was zero traffic.
func (p *Pipeline) watermark(w *ingest.Watermark, emit func(*Output)) ingest.Reason {
	if w.Pool != "" && p.entry(w.Pool) == nil {
		return ingest.ReasonUnknownPool
	}
	if !p.time.plausible(w.At) {
		return ingest.ReasonFuture
	}
	if w.Pool != "" {
		p.aggregator.AddWatermark(w)
	}
	if w.Pool == "" || p.cfg.Clock == EventClock {
		p.run(p.time.promise(w.At), true, emit)
	}
	return ""
}

// reach moves time to t where records do that, running the ticks that become due; a time too far ahead is refused.
func (p *Pipeline) reach(t time.Time, emit func(*Output)) ingest.Reason {
	if !p.time.plausible(t) {
		return ingest.ReasonFuture
	}
	switch {
	case p.cfg.Clock == EventClock:
		p.run(p.time.event(t), true, emit)
	case p.time.byRecords():
		p.run(p.time.event(t), false, emit)
	}
	return ""
}

func (p *Pipeline) counted(reason ingest.Reason) ingest.Reason {
	if reason == "" {
		p.counters.Records++
	}
	return reason
}

func (p *Pipeline) refuse(b *ingest.Batch, reason ingest.Reason, pool, replica string, at time.Time, record func() []byte) {
	p.counters.Refused[reason]++
	f := ingest.Refusal{Reason: reason, Detail: p.explain(reason, pool, at), Producer: cmp.Or(b.Source, replica), Pool: pool}
	if reason != ingest.ReasonDuplicate { // a resend is no fault to look into
		f.Record = record()
	}
	b.Refused = append(b.Refused, f)
}

// run runs the ticks after the last one up to and including last. A hole of more than maxCatchUp is jumped over: once
// what came before it has settled, the pipeline goes on with the hole's last minutes. Without advise no tick decides.
func (p *Pipeline) run(last time.Time, advise bool, emit func(*Output)) {
	first := p.time.next(last)
	for t := first; !t.IsZero() && !t.After(last); t = t.Add(features.Minute) {
		if resume := last.Add(-maxCatchUp); t.Before(resume) && t.Sub(first) > p.cfg.Features.Revise {
			t = resume
		}
		// On the wall clock only the newest tick decides: advice for minutes that have passed is no advice.
		decide := advise && (p.cfg.Clock == EventClock || t.Equal(last))
		p.tick(t, decide, emit)
	}
}

// tick ends the minute before t: windows close, models learn, and when decide is set the pools are forecast, projected
// and decided.
func (p *Pipeline) tick(t time.Time, decide bool, emit func(*Output)) {
	p.time.ticked(t)
	p.counters.Ticks++
	out := Output{Tick: t, Sequence: p.sequence}
	p.Stage("close")
	out.Windows, out.Pools = p.aggregator.Close(t)
	out.Producers = p.producers.Tick(t, out.Pools)
	p.tickPools(&out)
	p.Stage("learn")
	p.learnService(out.Windows, out.Pools)
	p.forecaster.Observe(out.Windows, out.Pools)
	if decide && (p.cfg.Every <= 0 || t.Unix()%int64(p.cfg.Every/time.Second) == 0) {
		p.decide(t, &out)
	}
	emit(&out)
}

// tickPools does what is due each minute for what sorts and completes the records of each pool.
func (p *Pipeline) tickPools(out *Output) {
	for i := range out.Pools {
		if e := p.entry(out.Pools[i].Pool); e != nil {
			e.prefix.fit(&out.Pools[i].State, &e.pool, p.cfg.PrefixBlocks)
			e.signals = e.signals.Add(out.Tick, out.Windows, &out.Pools[i])
			e.prompts.Observe(e.pool.Name, out.Windows)
		}
	}
}

func (p *Pipeline) decide(t time.Time, out *Output) {
	p.Stage("forecast")
	out.Forecasts = p.forecaster.Forecast(t)
	p.Stage("decide")
	var conditions []alerting.Condition
	resuming := false
	for i := range out.Forecasts {
		f := out.Forecasts[i].Load() // replicas have to do what all attempts ask for
		e := p.entry(f.Pool)
		if e == nil {
			continue // a pool that is no longer configured
		}
		pool, cfg := e.pool, p.decision(e)
		pool.Warmup = e.warmup.Given(waiting(t, &f.Minute.State, e.asks.Open))
		trusted := pool.Trust(&e.service.learned, f.Minute.State.KVCapacityTokens, t)
		pool.Rates = trusted.Rates
		sending := pool.Sent(f.Computed())
		supply, _ := alerting.CurrentSupply(t, f.Minute, &pool, e.decision, cfg.Mode)
		lead := forecaster.LeadTime(&pool.Warmup)
		e.line.Judge(e.calibrator.Learn(t, func(dimension string, minute int64) float64 { return p.forecaster.Load(f.Pool, dimension, minute) }))
		window := lead + cfg.Hold
		projection := forecaster.Project(f, alerting.Serving(&pool, &trusted), &pool.Warmup, supply, pool.Reserves.Failure, window, &e.calibrator)
		if pool.Disaggregated {
			projection.Prompts = new(forecaster.Project(f, alerting.Prompting(&pool, &trusted), &pool.Warmup, alerting.PromptSupply(t, &pool, &e.decision), pool.PrefillReserves.Failure, window, &e.calibrator))
		}
		e.calibrator.Issue(f, &projection, &pool.Warmup)
		if !t.After(e.decision.LastTick) {
			resuming = true
			continue // it was decided before the state was lost: see Resume
		}
		projection.Drivers = p.forecaster.Drivers(f.Pool, projection.Binding, 3)
		if prompts := projection.Prompts; prompts != nil {
			prompts.Drivers = p.forecaster.Drivers(f.Pool, prompts.Binding, 3)
		}
		projection.Growth = p.forecaster.Growth(f.Pool, projection.Binding)
		limits := forecaster.ProjectLimits(f, limitsOf(&pool), window)
		projection.Warnings = append(projection.Warnings, trusted.Warnings...)
		if sending {
			projection.Warnings = append(projection.Warnings, transferWarning(&pool))
		}
		projection.Warnings = append(projection.Warnings, limitWarnings(limits, window)...)
		out.Services = append(out.Services, PoolService{f.Pool, trusted, pool.ServiceCurve(&e.service.learned, &trusted), limits})
		in := alerting.Input{Projection: projection, Forecast: f, Pool: pool, Minute: f.Minute, Sequence: p.sequence, Signals: e.signals}
		in.WarnFrom, in.FalsePerWeek = e.line.At(cfg)
		in.Basis = alerting.NewBasis(&e.pool, &pool.Warmup, &trusted, &f.Minute)
		was := e.decision.LastDesired
		var d alerting.Decision
		d, e.decision = alerting.Decide(t, in, e.decision, cfg)
		out.Projections = append(out.Projections, projection)
		out.Decisions = append(out.Decisions, d)
		e.remember(&d)
		e.asks.decided(&d, was)
		if !d.Stale {
			e.line.Tick(t, d.Ahead(), cfg)
		}
		conditions = append(conditions, alerting.Conditions(&d, f, cfg)...)
		conditions = append(conditions, e.prompts.Condition(&d, pool.LongestPrompt(f.Minute.State.KVCapacityTokens), cfg)...)
		out.Prompts = append(out.Prompts, PoolPrompts{f.Pool, e.prompts})
	}
	if !resuming {
		out.Alerts = p.board.Update(t, conditions)
	}
}

// decision is the configuration of a pool's decisions: a pool may have a mode of its own.
func (p *Pipeline) decision(e *poolEntry) alerting.Config {
	cfg := p.cfg.Decision
	cfg.Mode = cmp.Or(alerting.Mode(e.pool.Mode), cfg.Mode)
	return cfg
}

// entry finds a pool, adding a copy of the default one for a new name; nil when the name is not served.
func (p *Pipeline) entry(name string) *poolEntry {
	i, ok := p.findPool(name)
	if ok {
		return p.pools[i]
	}
	if p.foreign(name) || p.cfg.DefaultPool == nil || len(p.pools) >= p.cfg.MaxPools || name == "" {
		return nil
	}
	c := *p.cfg.DefaultPool
	c.Name = name
	return p.addPool(c)
}

// foreign says that a pool belongs to another pipeline.
func (p *Pipeline) foreign(pool string) bool { return p.cfg.Owns != nil && !p.cfg.Owns(pool) }

// Served are the pools whose telemetry is counted, ordered by name; more says that others are admitted yet.
func (p *Pipeline) Served() (names []string, more bool) {
	for _, e := range p.pools {
		names = append(names, e.pool.Name)
	}
	return names, p.cfg.DefaultPool != nil && len(p.pools) < p.cfg.MaxPools
}

// NumServed is how many there are.
func (p *Pipeline) NumServed() int { return len(p.pools) }

func (p *Pipeline) findPool(name string) (int, bool) {
	return slices.BinarySearchFunc(p.pools, name, func(e *poolEntry, n string) int { return strings.Compare(e.pool.Name, n) })
}

func (p *Pipeline) addPool(c capacity.Pool) *poolEntry {
	e := &poolEntry{pool: c, warmup: c.Warmup}
	i, _ := p.findPool(c.Name)
	p.pools = slices.Insert(p.pools, i, e)
	return e
}

// Calibrator is how the windows ahead of a pool turned out, as its newest projection took it; nil for a pool that is not known.
// It is the pipeline's own.
func (p *Pipeline) Calibrator(pool string) *forecaster.Calibrator {
	if i, ok := p.findPool(pool); ok {
		return &p.pools[i].calibrator
	}
	return nil
}

// Sequence is the sequence of the newest message applied.
func (p *Pipeline) Sequence() uint64 { return p.sequence }

// StreamRemade says that what comes next is of another stream: no sequence of it is applied.
func (p *Pipeline) StreamRemade() { p.sequence = 0 }

// LastTick is the newest tick; zero before the first.
func (p *Pipeline) LastTick() time.Time { return p.time.Last }

// Counters returns what was applied; the map is the pipeline's own.
func (p *Pipeline) Counters() Counters { return p.counters }

// Omissions count what the parts had to leave out or forget to stay within their bounds. They only grow.
type Omissions struct {
	Features          features.Counters
	IDsForgotten      uint64 // by the deduper
	BlocksForgotten   uint64 // by the prefix caches of the pools
	ConditionsDropped uint64 // by the alert board
	ProducersRefused  uint64 // records of producers beyond those that can be followed
}

// Omissions of everything applied so far, earlier runs included.
func (p *Pipeline) Omissions() Omissions {
	o := Omissions{Features: p.aggregator.Counters(), IDsForgotten: p.dedup.Forgotten(), ConditionsDropped: p.board.Dropped(), ProducersRefused: p.producers.Refused()}
	for _, e := range p.pools {
		o.BlocksForgotten += e.prefix.forgotten()
	}
	return o
}
