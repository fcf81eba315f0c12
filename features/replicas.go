package features

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// fleet has the newest report of each replica of one pool.
type fleet struct {
	byName      map[string]*replica
	replicas    []*replica // ordered by name
	reported    time.Time
	preemptions float64 // since the last state()
	waiting     int64   // requests, over the ready replicas that report it
	reporting   int64   // those replicas
	serving     int64   // replicas that serve

	capacities []float64   // scratch
	pending    []time.Time // result of state()
}

type replica struct {
	last         ingest.Replica
	pendingSince time.Time // zero unless pending or loading
	fresh        bool      // first seen while the pool reported, and not ready since
	started      time.Time // process start of the newest reported startup
}

func newFleet() fleet { return fleet{byName: make(map[string]*replica)} }

// ReplicaLife is the new information about a replica's start in a report.
type ReplicaLife struct {
	Warmed  time.Duration // from pending to ready, in the first report of ready; else 0
	New     bool          // first report of ready, for a replica that appeared while the pool reported
	Started bool          // the report has the startup time of a new process
}

// maxStartDelay is the longest delay from ready to the report of a startup time.
const maxStartDelay = 10 * time.Minute

// maxReportGap is the longest gap in a pool's reports before the first report of a pending replica. After a longer gap
// the replica may have been pending before.
const maxReportGap = 2 * time.Minute

// warmed is the time from pending to r, the first report of ready; 0 when r is not that report or the time is unknown.
// It is 0 for a replica that served before, which was only restarted.
func (k *replica) warmed(r *ingest.Replica) time.Duration {
	if !k.fresh || k.pendingSince.IsZero() || r.State != ingest.ReplicaReady {
		return 0
	}
	return r.At.Sub(k.pendingSince)
}

// start reports whether r has a new startup time of the replica.
func (k *replica) start(r *ingest.Replica) bool {
	if !(r.StartupSeconds > 0) || r.StartedAt.IsZero() || r.State != ingest.ReplicaReady || r.StartedAt.Equal(k.started) {
		return false
	}
	k.started = r.StartedAt.UTC()
	ready := r.StartedAt.Add(time.Duration(r.StartupSeconds * float64(time.Second)))
	return r.At.Sub(ready) <= maxStartDelay
}

// add adds a report. It refuses a report older than the newest one, and a new replica when the fleet is full; ok is
// false then.
func (f *fleet) add(r *ingest.Replica, limit int, n *Counters) (ok bool, life ReplicaLife) {
	known, ok := f.byName[r.Name]
	switch {
	case ok && r.At.Before(known.last.At):
		n.ReplicasStale++
		return false, life
	case !ok && len(f.replicas) >= limit:
		n.ReplicasRefused++
		return false, life
	case !ok:
		known = f.insert(r.Name)
	case r.PreemptionsTotal >= 0 && known.last.PreemptionsTotal >= 0:
		f.preemptions += float64(increase(known.last.PreemptionsTotal, r.PreemptionsTotal))
	}
	n.ReplicaReports++
	previous := f.reported
	f.reported = later(f.reported, r.At)
	life.Warmed = known.warmed(r)
	if known.last.State == ingest.ReplicaGone {
		known.fresh = !previous.IsZero() && r.At.Sub(previous) <= maxReportGap
	}
	if r.State == ingest.ReplicaReady {
		life.New, known.fresh = known.fresh, false
	}
	name := known.last.Name
	f.count(&known.last, -1)
	known.last = *r
	known.last.Name, known.last.Pool = name, ""
	f.count(&known.last, 1)
	switch {
	case r.State != ingest.ReplicaPending && r.State != ingest.ReplicaLoading:
		known.pendingSince = time.Time{}
	case known.pendingSince.IsZero():
		known.pendingSince = r.At.UTC()
	}
	life.Started = known.start(r)
	return true, life
}

// count adds a report to the fleet's queue and number of serving replicas, or subtracts it with sign −1.
func (f *fleet) count(r *ingest.Replica, sign int64) {
	if r.State == ingest.ReplicaReady || r.State == ingest.ReplicaDraining {
		f.serving += sign
	}
	if r.State == ingest.ReplicaReady && r.Waiting >= 0 {
		f.waiting += sign * r.Waiting
		f.reporting += sign
	}
}

// newest is the newest report of a replica; without one its state is ReplicaGone.
func (f *fleet) newest(name string) ingest.Replica {
	if r, ok := f.byName[name]; ok {
		return r.last
	}
	return ingest.Replica{State: ingest.ReplicaGone}
}

func (f *fleet) insert(name string) *replica {
	known := &replica{last: ingest.Replica{Name: name, State: ingest.ReplicaGone}}
	f.byName[name] = known
	i, _ := slices.BinarySearchFunc(f.replicas, name, func(r *replica, name string) int { return strings.Compare(r.last.Name, name) })
	f.replicas = slices.Insert(f.replicas, i, known)
	return known
}

// increase is the increase of a counter that restarts at zero with its process.
func increase(before, now int64) int64 {
	if now < before {
		return now
	}
	return now - before
}

// forget drops the replicas without a report since t.
func (f *fleet) forget(t time.Time) {
	f.replicas = slices.DeleteFunc(f.replicas, func(r *replica) bool {
		if !r.last.At.Before(t) {
			return false
		}
		f.count(&r.last, -1)
		delete(f.byName, r.last.Name)
		return true
	})
}

// state summarizes the replicas that reported within ttl before at. It resets the count of preemptions.
func (f *fleet) state(pool string, at time.Time, ttl time.Duration) PoolState {
	s := PoolState{Pool: pool, At: at, ReportedAt: f.reported, KVUsedMax: math.NaN(), WaitingPerReady: math.NaN()}
	s.Preemptions, f.preemptions = f.preemptions, 0
	f.capacities, f.pending = f.capacities[:0], f.pending[:0]
	waiting, reporting := 0.0, 0.0
	for _, r := range f.replicas {
		if r.last.At.Before(at.Add(-ttl)) {
			continue
		}
		s.Observed = true
		switch r.last.State {
		case ingest.ReplicaReady:
			s.Ready++
			if r.last.KVCapacityTokens > 0 {
				f.capacities = append(f.capacities, float64(r.last.KVCapacityTokens))
			}
			if used := kvUsed(&r.last); !(s.KVUsedMax >= used) && !math.IsNaN(used) {
				s.KVUsedMax = used
			}
			if r.last.Waiting >= 0 {
				waiting += float64(r.last.Waiting)
				reporting++
			}
		case ingest.ReplicaPending, ingest.ReplicaLoading:
			s.Pending++
			f.pending = append(f.pending, r.pendingSince)
		case ingest.ReplicaDraining:
			s.Draining++
		}
	}
	slices.SortFunc(f.pending, time.Time.Compare)
	s.PendingSince = f.pending
	if s.KVCapacityTokens = median(f.capacities); s.KVCapacityTokens > 0 {
		s.KVCapacityLeast, s.KVCapacityMost = f.capacities[0], f.capacities[len(f.capacities)-1]
	}
	if reporting > 0 {
		s.WaitingPerReady = waiting / reporting
	}
	return s
}

// kvUsed is the share of a replica's KV cache that is in use; NaN when unknown.
func kvUsed(r *ingest.Replica) float64 {
	if math.IsNaN(r.KVUsedRatio) && r.KVUsedTokens >= 0 && r.KVCapacityTokens > 0 {
		return float64(r.KVUsedTokens) / float64(r.KVCapacityTokens)
	}
	return r.KVUsedRatio
}

// median sorts v; 0 when there is none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b.UTC()
	}
	return a
}
