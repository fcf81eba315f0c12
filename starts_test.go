package forewarm

import (
	"bytes"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// TestStartsTeachTheWarmupLag: each start once, however often and late it is reported, and only one that took longer
// than expected.
func TestStartsTeachTheWarmupLag(t *testing.T) {
	p := New(eventConfig(t, "p"))
	median := p.pools[0].warmup.Quantile(0.5)
	slow, quick := (median + time.Minute).Seconds(), (median / 2).Seconds()
	report := func(name string, at, started time.Time, seconds float64, state ingest.ReplicaState) {
		p.Apply(&ingest.Batch{Replicas: []ingest.Replica{{
			Pool: "p", Name: name, At: at, State: state, StartedAt: started, StartupSeconds: seconds,
			KVCapacityTokens: -1, KVUsedTokens: -1, Running: -1, Waiting: -1, PreemptionsTotal: -1, PrefixHitsTotal: -1, PrefixQueryTotal: -1,
		}}}, func(*Output) {})
	}
	started := midnight.Add(-median - time.Minute)
	for i, step := range []struct {
		name    string
		at      time.Time
		started time.Time
		seconds float64
		state   ingest.ReplicaState
		want    int // observations so far
	}{
		{"a", midnight, started, slow, ingest.ReplicaLoading, 0}, // not over
		{"a", midnight, time.Time{}, slow, ingest.ReplicaReady, 0},
		{"a", midnight, started, slow, ingest.ReplicaReady, 1},
		{"a", midnight.Add(15 * time.Second), started, slow, ingest.ReplicaReady, 1},
		{"a", midnight.Add(30 * time.Second), time.Time{}, 0, ingest.ReplicaReady, 1}, // a reporter that knows of no start
		{"a", midnight.Add(45 * time.Second), started, slow, ingest.ReplicaReady, 1},
		{"b", midnight.Add(45 * time.Second), started, slow, ingest.ReplicaReady, 2},
		{"c", midnight.Add(45 * time.Second), started, quick, ingest.ReplicaReady, 2},
		{"d", midnight.Add(50 * time.Second), started.Add(-time.Hour), slow, ingest.ReplicaReady, 2}, // long ago
		{"a", midnight.Add(55 * time.Second), started.Add(50 * time.Second), slow, ingest.ReplicaReady, 3},
	} {
		report(step.name, step.at, step.started, step.seconds, step.state)
		if got := len(p.pools[0].warmup.State().Observed); got != step.want {
			t.Errorf("step %d: %d starts, want %d", i, got, step.want)
		}
		snapshot := saved(t, p)
		var err error
		if p, err = Restore(eventConfig(t, "p"), bytes.NewReader(snapshot)); err != nil {
			t.Fatal(err)
		}
	}
}
