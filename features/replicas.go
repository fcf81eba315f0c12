package features

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// fleet is what replica reports say of one pool: the newest report of each replica.
type fleet struct {
	byName      map[string]*replica
	replicas    []*replica // ordered by name
	reported    time.Time
	preemptions float64 // since the last state()
	waiting     int64   // requests, over the ready replicas that report it
	reporting   int64   // those replicas
	serving     int64   // replicas that serve

	capacities []float64   // scratch
	pending    []time.Time // lent to the caller of state()
}

type replica struct {
	last         ingest.Replica
	pendingSince time.Time // zero unless pending or loading
	fresh        bool      // it was first seen just now, while others were heard, and was not ready yet
	started      time.Time // when the process started whose start was told last
}

func newFleet() fleet { return fleet{byName: make(map[string]*replica)} }

// ReplicaLife is what a report tells of a replica's start that was not known before.
type ReplicaLife struct {
	Warmed  time.Duration // from being pending to being ready, when this is the first report of that; else 0
	New     bool          // this is its first report of being ready, and the pool was heard of before
	Started bool          // its process has started, and the report says how long that took
}

// maxStartDelay is how long after it was ready a start may still be reported.
const maxStartDelay = 10 * time.Minute

// maxReportGap is how long ago a pool must have reported for a replica that is then first seen pending to have been asked for
// just now: after a silence it may have been waiting for longer.
const maxReportGap = 2 * time.Minute

// warmed is how long the replica took from being asked for to r, its first report of being ready; 0 when r is none, or when
// that is not known: a replica that served before has only been started again.
func (k *replica) warmed(r *ingest.Replica) time.Duration {
	if !k.fresh || k.pendingSince.IsZero() || r.State != ingest.ReplicaReady {
		return 0
	}
	return r.At.Sub(k.pendingSince)
}

// start says whether r tells of a start of the replica that was not known yet.
func (k *replica) start(r *ingest.Replica) bool {
	if !(r.StartupSeconds > 0) || r.StartedAt.IsZero() || r.State != ingest.ReplicaReady || r.StartedAt.Equal(k.started) {
		return false
	}
	k.started = r.StartedAt.UTC()
	ready := r.StartedAt.Add(time.Duration(r.StartupSeconds * float64(time.Second)))
	return r.At.Sub(ready) <= maxStartDelay
}

// add takes in a report. One that is older than what is known of the replica is left out, and so is a new replica when
// the fleet is full of others that are not silent; ok says that it was taken.
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
	heard := f.reported
	f.reported = later(f.reported, r.At)
	life.Warmed = known.warmed(r)
	if known.last.State == ingest.ReplicaGone {
		known.fresh = !heard.IsZero() && r.At.Sub(heard) <= maxReportGap
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

// count adds a report to the queue of the whole fleet and to the replicas that serve, or with sign −1 takes it off.
func (f *fleet) count(r *ingest.Replica, sign int64) {
	if r.State == ingest.ReplicaReady || r.State == ingest.ReplicaDraining {
		f.serving += sign
	}
	if r.State == ingest.ReplicaReady && r.Waiting >= 0 {
		f.waiting += sign * r.Waiting
		f.reporting += sign
	}
}

// newest is the newest report of a replica, that of one that is gone when there is none.
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

// increase of a counter that starts again at zero when its process does.
func increase(before, now int64) int64 {
	if now < before {
		return now
	}
	return now - before
}

// forget drops the replicas that were last heard of before t.
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

// state sums the fleet up at one instant, of replicas heard of within ttl. It starts a new count of preemptions.
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
