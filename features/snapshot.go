package features

import (
	"fmt"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/ingest"
)

// State is the first part of a saved Aggregator. Then come a ClassSnapshot for each class of each pool and an
// ArrivalSnapshot. The data is ordered, so that equal Aggregators encode to equal bytes. Minutes count from the Unix
// epoch, times are in nanoseconds from it (0 is no time).
type State struct {
	Started  bool           `cbor:"1,keyasint"` // a record has opened the span
	Closed   bool           `cbor:"6,keyasint"` // Close has been called
	Open     int64          `cbor:"2,keyasint"`
	Pools    []PoolSnapshot `cbor:"3,keyasint"`
	Counters Counters       `cbor:"5,keyasint"`
}

// PoolSnapshot is one pool in a State.
type PoolSnapshot struct {
	Name        string             `cbor:"1,keyasint"`
	Phased      bool               `cbor:"2,keyasint"`
	LastEvent   int64              `cbor:"3,keyasint"`
	Watermark   int64              `cbor:"4,keyasint"`
	Coverage    []CoverageSnapshot `cbor:"5,keyasint"`
	Classes     int                `cbor:"6,keyasint"` // how many there are
	Replicas    []ReplicaSnapshot  `cbor:"7,keyasint"`
	Reported    int64              `cbor:"8,keyasint"`
	Preemptions float64            `cbor:"9,keyasint"`
	Expected    Expected           `cbor:"40,keyasint"`
	Settled     CoverageSnapshot   `cbor:"41,keyasint"` // of the minute that settled last
	Sharing     []float32          `cbor:"42,keyasint"` // ratios, oldest first
	Lag         lag                `cbor:"20,keyasint"`
	Retried     int64              `cbor:"43,keyasint"`
}

// CoverageSnapshot is the evidence of telemetry of a pool in one minute.
type CoverageSnapshot struct {
	Minute   int64 `cbor:"1,keyasint"`
	Evidence bool  `cbor:"2,keyasint"`
	Returned bool  `cbor:"3,keyasint"`

	Pressure queuePressure `cbor:"40,keyasint"`
	Censored bool          `cbor:"41,keyasint"`

	Use engineUse `cbor:"42,keyasint"`
}

func (c *coverage) snapshot(minute int64) CoverageSnapshot {
	return CoverageSnapshot{Minute: minute, Evidence: c.evidence, Returned: c.returned, Pressure: c.queuePressure, Censored: c.censored, Use: c.use}
}

func (s *CoverageSnapshot) restored() coverage {
	return coverage{evidence: s.Evidence, queuePressure: s.Pressure, use: s.Use, returned: s.Returned, censored: s.Censored}
}

// ClassSnapshot is one class of a pool.
type ClassSnapshot struct {
	Name     string                          `cbor:"1,keyasint"`
	Born     int64                           `cbor:"2,keyasint"`
	Last     int64                           `cbor:"3,keyasint"`
	Reports  Reports                         `cbor:"4,keyasint"`
	Moments  sketch.Moments                  `cbor:"5,keyasint"`
	Windows  []WindowSnapshot                `cbor:"7,keyasint"`
	Accounts [accountKinds]*sketch.TopKState `cbor:"8,keyasint"` // nil where nobody was ever named

	Expected Expected  `cbor:"40,keyasint"`
	Late     Late      `cbor:"41,keyasint"`
	Nowcasts *nowcasts `cbor:"20,keyasint,omitempty"` // nil when no record ever came late
}

// WindowSnapshot is one open minute of a class, without key, start and coverage, which follow from its position.
type WindowSnapshot struct {
	Minute int64  `cbor:"1,keyasint"`
	Dirty  bool   `cbor:"2,keyasint"`
	Window Window `cbor:"3,keyasint"`
	Pace   pace   `cbor:"40,keyasint"`
}

// ReplicaSnapshot is the newest report of one replica.
type ReplicaSnapshot struct {
	At           int64          `cbor:"1,keyasint"`
	PendingSince int64          `cbor:"2,keyasint"`
	Report       ingest.Replica `cbor:"3,keyasint"` // without pool, times and start
	Started      int64          `cbor:"4,keyasint,omitempty"`
	Asked        bool           `cbor:"5,keyasint,omitempty"`
}

// ArrivalSnapshot lists, oldest first and in columns, the requests that are remembered between arrival and end. Flags
// has bit 0 for ended, 1 for prompt counted, 2 for cached counted.
type ArrivalSnapshot struct {
	Hashes  []uint64 `cbor:"1,keyasint"`
	Minutes []int64  `cbor:"2,keyasint"`
	Flags   []byte   `cbor:"3,keyasint"`
	Classes []uint32 `cbor:"4,keyasint,omitempty"` // numbers from one, zero for an evicted class
}

func (a *Aggregator) poolSnapshot(p *pool) PoolSnapshot {
	s := PoolSnapshot{
		Name: p.name, Phased: p.phased, LastEvent: nanos(p.lastEvent.time()), Watermark: nanos(p.watermark.time()),
		Reported: nanos(p.fleet.reported), Preemptions: p.fleet.preemptions,
		Expected: p.expected, Settled: p.settled.snapshot(0), Sharing: p.sharing.state(),
		Lag:     p.lag,
		Classes: len(p.classes), Retried: p.retried,
	}
	for m := a.oldest(); m < a.end(); m++ {
		if c := &p.coverage[a.slot(m)]; *c != (coverage{}) {
			s.Coverage = append(s.Coverage, c.snapshot(m))
		}
	}
	for _, r := range p.fleet.replicas {
		rs := ReplicaSnapshot{At: nanos(r.last.At), PendingSince: nanos(r.pendingSince), Asked: r.fresh, Started: nanos(r.started), Report: r.last}
		rs.Report.At, rs.Report.StartedAt, rs.Report.StartupSeconds = time.Time{}, time.Time{}, 0
		s.Replicas = append(s.Replicas, rs)
	}
	return s
}

// Parts calls put with each part of the state, in the order that Restore expects. A part is valid until put returns.
func (a *Aggregator) Parts(put func(part any) error) error {
	s := State{Started: a.started, Closed: a.closed, Open: a.open, Counters: a.counters}
	for _, p := range a.pools {
		s.Pools = append(s.Pools, a.poolSnapshot(p))
	}
	if err := put(&s); err != nil {
		return err
	}
	number := map[*class]uint32{}
	for i, c := range a.numbered() {
		number[c] = uint32(i)
		s := a.classSnapshot(c)
		if err := put(&s); err != nil {
			return err
		}
	}
	return put(a.arrivals.snapshot(number))
}

func (a *Aggregator) classSnapshot(c *class) ClassSnapshot {
	s := ClassSnapshot{
		Name: c.key.Class, Born: c.born, Last: c.last, Reports: c.reports, Moments: c.moments,
		Expected: c.expected, Late: c.late, Nowcasts: c.nowcasts,
	}
	for kind, account := range c.accounts {
		if account != nil {
			state := account.names.State()
			s.Accounts[kind] = &state
		}
	}
	for m := a.oldest(); len(s.Windows) < c.open; m++ {
		if at := a.find(c, m); at != nil {
			w := WindowSnapshot{Minute: m, Dirty: a.dirty(at, m), Window: at.Window, Pace: at.pace}
			w.Window.show(at.shapes)
			s.Windows = append(s.Windows, w)
		}
	}
	return s
}

// Restore makes an Aggregator that continues exactly where the saved one stopped; next decodes the next part into its
// argument. If cfg has changed, minutes outside the open span and the lightest tenants are dropped. Classes and
// replicas beyond a smaller cap stay until they are silent. The error names the invalid value.
func Restore(cfg Config, next func(part any) error) (*Aggregator, error) {
	a := New(cfg)
	if err := a.restore(next); err != nil {
		return nil, fmt.Errorf("restore aggregator: %w", err)
	}
	return a, nil
}

func (a *Aggregator) restore(next func(part any) error) error {
	var s State
	if err := next(&s); err != nil {
		return err
	}
	a.started, a.closed, a.open, a.counters = s.Started, s.Closed, s.Open, s.Counters
	if s.Closed {
		a.unseen = s.Open
	}
	for i := range s.Pools {
		ps := &s.Pools[i]
		if _, ok := a.byName[ps.Name]; ok {
			return fmt.Errorf("pool %q comes twice", ps.Name)
		}
		if err := a.restorePool(ps, next); err != nil {
			return fmt.Errorf("pool %q: %w", ps.Name, err)
		}
	}
	classes := a.numbered()
	var arrivals ArrivalSnapshot
	if err := next(&arrivals); err != nil {
		return err
	}
	return a.arrivals.restore(arrivals, classes)
}

func (a *Aggregator) restorePool(s *PoolSnapshot, next func(part any) error) error {
	p := a.pool(s.Name)
	p.expected, p.settled = s.Expected, s.Settled.restored()
	p.sharing.restore(s.Sharing)
	p.phased, p.lastEvent, p.watermark = s.Phased, unixTimeOf(instant(s.LastEvent)), unixTimeOf(instant(s.Watermark))
	for _, c := range s.Coverage {
		if a.holds(c.Minute) {
			p.coverage[a.slot(c.Minute)] = c.restored()
		}
	}
	p.retried = s.Retried
	if s.Lag.fits(a.revise) {
		p.lag = s.Lag
	}
	for range s.Classes {
		var cs ClassSnapshot
		if err := next(&cs); err != nil {
			return err
		}
		if _, ok := p.byName[cs.Name]; ok {
			return fmt.Errorf("class %q comes twice", cs.Name)
		}
		if err := a.restoreClass(p, &cs); err != nil {
			return fmt.Errorf("class %q: %w", cs.Name, err)
		}
	}
	p.fleet.reported, p.fleet.preemptions = instant(s.Reported), s.Preemptions
	for _, rs := range s.Replicas {
		if _, ok := p.fleet.byName[rs.Report.Name]; ok {
			return fmt.Errorf("replica %q comes twice", rs.Report.Name)
		}
		r := p.fleet.insert(rs.Report.Name)
		r.last, r.pendingSince, r.fresh = rs.Report, instant(rs.PendingSince), rs.Asked
		r.last.At, r.started = instant(rs.At), instant(rs.Started)
		p.fleet.count(&r.last, 1)
	}
	return nil
}

func (a *Aggregator) restoreClass(p *pool, s *ClassSnapshot) (err error) {
	c := a.newClass(p, s.Name)
	c.born, c.last, c.reports, c.moments = s.Born, s.Last, s.Reports, s.Moments
	c.expected, c.late = s.Expected, s.Late
	if err = c.accounts.restore(s.Accounts, countersPerName*a.cfg.MaxTenants); err != nil {
		return err
	}
	if s.Nowcasts != nil && s.Nowcasts.fits(a.revise) {
		c.nowcasts = s.Nowcasts
	}
	for _, w := range s.Windows {
		if !a.holds(w.Minute) {
			continue
		}
		at := a.bucket(c, w.Minute)
		for i, shape := range w.Window.shapes() {
			if (*shape).Count() > 0 {
				if at.shapes == nil {
					at.shapes = new(shapes)
				}
				at.shapes[i] = **shape
			}
			*shape = nil
		}
		at.Window, at.pace = w.Window, w.Pace
		if !w.Dirty {
			at.changed = 0
		}
	}
	return nil
}
