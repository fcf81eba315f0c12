package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
)

// TestWarmupFromStarts: a start is learned once, however often and late it is reported, and only if it took longer than
// expected.
func TestWarmupFromStarts(t *testing.T) {
	p := New(eventConfig(t, "p"))
	median := p.pools[0].Warmup.Quantile(0.5)
	slow, quick := (median + time.Minute).Seconds(), (median / 2).Seconds()
	started := midnight.Add(-median - time.Minute)
	for i, step := range []struct {
		name    string
		at      time.Time
		started time.Time
		seconds float64
		state   ingest.ReplicaState
		want    int // observations so far
	}{
		{"a", midnight, started, slow, ingest.ReplicaLoading, 0}, // not yet ready
		{"a", midnight, time.Time{}, slow, ingest.ReplicaReady, 0},
		{"a", midnight, started, slow, ingest.ReplicaReady, 1},
		{"a", midnight.Add(15 * time.Second), started, slow, ingest.ReplicaReady, 1},
		{"a", midnight.Add(30 * time.Second), time.Time{}, 0, ingest.ReplicaReady, 1}, // a reporter that does not know the start
		{"a", midnight.Add(45 * time.Second), started, slow, ingest.ReplicaReady, 1},
		{"b", midnight.Add(45 * time.Second), started, slow, ingest.ReplicaReady, 2},
		{"c", midnight.Add(45 * time.Second), started, quick, ingest.ReplicaReady, 2},
		{"d", midnight.Add(50 * time.Second), started.Add(-time.Hour), slow, ingest.ReplicaReady, 2}, // an hour ago
		{"a", midnight.Add(55 * time.Second), started.Add(50 * time.Second), slow, ingest.ReplicaReady, 3},
	} {
		r := report(step.name, step.at, step.state)
		r.StartedAt, r.StartupSeconds = step.started, step.seconds
		p.Apply(&ingest.Batch{Replicas: []ingest.Replica{r}}, func(*Output) {})
		if got := len(p.pools[0].Warmup.Observed); got != step.want {
			t.Errorf("step %d: %d starts, want %d", i, got, step.want)
		}
		p = restarted(t, eventConfig(t, "p"), p)
	}
}

// TestWarmupFromPendingReplicas: if it is not known that anybody obeys the advice, the warm-up is the pending time of
// replicas. The acks of an autoscaler take precedence over it.
func TestWarmupFromPendingReplicas(t *testing.T) {
	p := New(eventConfig(t, "p"))
	var lead time.Duration
	at := midnight
	tick := func(until time.Time) {
		p.Apply(&ingest.Batch{Watermark: &ingest.Watermark{Pool: "p", At: until}}, func(o *Output) {
			for _, d := range o.Decisions() {
				lead = d.Lead
			}
		})
	}
	send := func(name string, at time.Time, state ingest.ReplicaState) {
		p.Apply(&ingest.Batch{Replicas: []ingest.Replica{report(name, at, state)}}, func(*Output) {})
	}
	scaleUp := func(n int, lag time.Duration) {
		name := fmt.Sprint("r", n)
		send("first", at, ingest.ReplicaReady)
		send(name, at, ingest.ReplicaPending)
		jitter := time.Duration(n%5-2) * time.Minute
		for m := time.Minute; m < lag+jitter; m += time.Minute {
			send(name, at.Add(m), ingest.ReplicaLoading)
			tick(at.Add(m))
		}
		at = at.Add(lag + jitter)
		send(name, at, ingest.ReplicaReady)
		tick(at.Add(time.Minute))
		send(name, at.Add(time.Minute), ingest.ReplicaGone)
		at = at.Add(time.Minute)
	}
	for n := range 20 {
		scaleUp(n, 10*time.Minute)
	}
	if lead < 11*time.Minute || lead > 15*time.Minute {
		t.Errorf("lead %s after 20 warm-ups of 8 to 12 minutes", lead)
	}
	e := p.pools[0]
	e.Issued = append(e.Issued, issue{Generation: 7, At: at.Add(-time.Hour)})
	seen := e.Warmup.Seen
	p.Apply(&ingest.Batch{Acks: []ingest.Ack{{Pool: "p", Generation: 7, Stage: ingest.AckReady, At: at.Add(-30 * time.Minute)}}}, func(*Output) {})
	unknown := &ingest.Batch{Acks: []ingest.Ack{
		{Pool: "p", EventID: "p-7", Generation: ingest.Unknown, Stage: ingest.AckAccepted, At: at},
		{Pool: "p", EventID: "p-8", Generation: ingest.Unknown, Stage: ingest.AckReady, At: at},
		{Pool: "p", EventID: "p-7", Generation: 6, Stage: ingest.AckReady, At: at},
		{Pool: "p", EventID: "7", Generation: ingest.Unknown, Stage: ingest.AckRejected, At: at},
	}}
	p.Apply(unknown, func(*Output) {})
	if n := len(unknown.Refused); n != 3 || p.Counters().Refused[ingest.ReasonUnknownEvent] != 3 {
		t.Errorf("of four acknowledgements, three of events that are not there: %+v", unknown.Refused)
	}
	scaleUp(1, 20*time.Minute)
	if got := e.Warmup.Seen; got != seen+1 {
		t.Errorf("%d observations from an ack and its start, want 1", got-seen)
	}
}

// An acknowledgement from the future is refused: until then no report of a replica would teach the warm-up.
func TestAckFromTheFuture(t *testing.T) {
	cfg := eventConfig(t, "p")
	cfg.Clock = WallClock
	p := New(cfg)
	e := p.byName["p"]
	e.Issued = []issue{{7, midnight}}
	b := ingest.Batch{ReceivedAt: midnight.Add(10 * time.Minute), Acks: []ingest.Ack{
		{Pool: "p", Generation: 7, Stage: ingest.AckReady, At: midnight.AddDate(1, 0, 0)},
		{Pool: "p", Generation: 7, Stage: ingest.AckReady, At: midnight.Add(9 * time.Minute)},
	}}
	p.Apply(&b, func(*Output) {})
	if len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonFuture || !e.LastReadyAck.Equal(midnight.Add(9*time.Minute)) {
		t.Errorf("refused %v; the last acknowledgement is of %v", b.Refused, e.LastReadyAck)
	}
}

// TestRequestTimeOfAcks: the warm-up of an ack begins when replicas were requested, also for a later decision that
// renews the request. Decisions that request no more replicas have no such time.
func TestRequestTimeOfAcks(t *testing.T) {
	var e poolEntry
	asked := midnight.Add(-8 * time.Minute)
	for i, x := range []struct {
		d    alerting.Decision
		want time.Time
	}{
		{alerting.Decision{Action: alerting.ScaleOut, Publish: true, Ready: 2, Desired: 4}, midnight},
		{alerting.Decision{Action: alerting.ScaleOut, Publish: true, Ready: 2, Desired: 4, AskedAt: asked}, asked},
		{alerting.Decision{Action: alerting.Hold, Publish: true, Ready: 2, Pending: 2, Desired: 4, AskedAt: asked}, asked},
		{alerting.Decision{Action: alerting.Hold, Publish: true, Ready: 4, Desired: 4, AskedAt: asked}, time.Time{}},
		{alerting.Decision{Action: alerting.ScaleIn, Publish: true, Ready: 4, Desired: 3, AskedAt: asked}, time.Time{}},
		{alerting.Decision{Action: alerting.ScaleOut, Ready: 2, Desired: 4}, time.Time{}},
	} {
		x.d.Tick, x.d.Generation = midnight, int64(i)
		e.recordIssue(&x.d)
		if at, ok := e.issuedAt(int64(i)); ok != x.d.Publish || !at.Equal(x.want) {
			t.Errorf("case %d: requested at %s (%t), want %s", i, at, ok, x.want)
		}
	}
}

// TestRequestOfReadyReplica: a replica takes the newest request for replicas before it was pending, or the oldest if it
// did not report that it was pending. One that was pending before every request was started by somebody else.
func TestRequestOfReadyReplica(t *testing.T) {
	first, second := midnight, midnight.Add(5*time.Minute)
	ready := midnight.Add(10 * time.Minute)
	for _, x := range []struct {
		name    string
		warmed  time.Duration
		started time.Time
		lag     time.Duration
		left    int
	}{
		{"ready only", 0, time.Time{}, 10 * time.Minute, 1},
		{"ready only, process older than the request", 0, midnight.Add(-time.Second), 0, 2},
		{"pending after the second", 4 * time.Minute, time.Time{}, 5 * time.Minute, 1},
		{"pending at the second", 5 * time.Minute, time.Time{}, 5 * time.Minute, 1},
		{"pending after the first", 6 * time.Minute, time.Time{}, 10 * time.Minute, 1},
		{"pending before both", 11 * time.Minute, time.Time{}, 0, 2},
	} {
		a := replicaRequests{Open: []time.Time{first, second}}
		r := report("r", ready, ingest.ReplicaReady)
		r.StartedAt = x.started
		if lag := a.complete(&r, x.warmed); lag != x.lag || len(a.Open) != x.left {
			t.Errorf("%s: %s, %d requests left; want %s, %d", x.name, lag, len(a.Open), x.lag, x.left)
		}
	}
}
