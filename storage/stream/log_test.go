package stream

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func serve(t *testing.T) (natsjs.JetStream, natsjs.KeyValue) {
	t.Helper()
	conn := must(nats.Connect(testenv.StartNATS(t)))
	t.Cleanup(conn.Close)
	js := must(natsjs.New(conn))
	stores := must(jetstream.Ensure(t.Context(), js, jetstream.DefaultConfig()))
	return js, stores.Deliveries
}

// writer is the log of one daemon, with what it reported.
type writer struct {
	*Log
	diverged []Divergence
	trouble  error
}

func write(t *testing.T, js natsjs.JetStream, instance string) *writer {
	t.Helper()
	w := &writer{}
	w.Log = NewLog(js, Config{Stream: "FOREWARM_DECISIONS", Prefix: "forewarm", Instance: instance, Version: "v-" + instance,
		Diverged: func(d Divergence) { w.diverged = append(w.diverged, d) }, Trouble: func(err error) { w.trouble = err }}, time.Time{}, time.Time{}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// tick adds a decision and a notice of each pool in one minute, and waits until they are stored.
func (w *writer) tick(t *testing.T, minute, desired int, pools ...string) {
	t.Helper()
	var records []Record
	var notices []alerting.Notice
	for _, pool := range pools {
		d := &alerting.Decision{Pool: pool, Tick: noon.Add(time.Duration(minute) * time.Minute), Desired: desired, Generation: int64(minute), Publish: true}
		records = append(records, Record{Decision: *d, State: []byte("state")})
		notices = append(notices, alerting.Notice{Decision: d})
	}
	if err := w.Add(noon.Add(time.Duration(minute)*time.Minute), records, notices); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Await(ctx, w.Added()); err != nil {
		t.Fatal(err)
	}
}

func messages(t *testing.T, js natsjs.JetStream) uint64 {
	t.Helper()
	s := must(js.Stream(t.Context(), "FOREWARM_DECISIONS"))
	return s.CachedInfo().State.Msgs
}

// TestTwoWriters: the first writer stores a tick with its notices. The second one compares its own with it, and reports
// a difference with both values and the other version.
func TestTwoWriters(t *testing.T) {
	js, _ := serve(t)
	a, b := write(t, js, "a"), write(t, js, "b")
	a.tick(t, 1, 3, "chat", "code")
	b.tick(t, 1, 3, "chat", "code")
	if n := messages(t, js); n != 4 {
		t.Errorf("%d messages, want two decisions and two notices", n)
	}
	b.tick(t, 2, 4, "chat", "code")
	a.tick(t, 2, 5, "chat", "code")
	if got := a.Counters(); got != (Counters{Stored: 2, Divergent: 2}) {
		t.Errorf("the first writer counts %+v", got)
	}
	if got := b.Counters(); got != (Counters{Stored: 2, Repeated: 2}) {
		t.Errorf("the second writer counts %+v", got)
	}
	if n := messages(t, js); n != 8 {
		t.Errorf("%d messages after a difference, want 8: only those of the first writer", n)
	}
	for _, d := range a.diverged {
		if !strings.HasPrefix(d.Ours, "5 replicas (digest ") || !strings.HasPrefix(d.Theirs, "4 replicas (digest ") || d.From != "b" || d.Version != "v-b" {
			t.Errorf("the difference is reported as %+v", d)
		}
	}
}

// TestTwoWritersAndANewPool: a writer is late, and the late tick has a new pool. No decision is stored twice.
func TestTwoWritersAndANewPool(t *testing.T) {
	js, _ := serve(t)
	a, b := write(t, js, "a"), write(t, js, "b")
	a.tick(t, 1, 3, "chat")
	b.tick(t, 1, 3, "chat")
	b.tick(t, 2, 3, "chat", "new")
	a.tick(t, 2, 3, "chat", "new")
	a.tick(t, 3, 3, "chat", "new")
	if got := a.Counters(); got != (Counters{Stored: 3, Repeated: 2}) {
		t.Errorf("%+v", got)
	}
	if n := messages(t, js); n != 10 {
		t.Errorf("%d messages, want five decisions and five notices", n)
	}
}

// TestPausedWriter: a writer that paused stores nothing for the ticks that another writer stored meanwhile. It compares
// those that it makes.
func TestPausedWriter(t *testing.T) {
	js, _ := serve(t)
	a, b := write(t, js, "a"), write(t, js, "b")
	a.tick(t, 1, 3, "chat")
	for minute := 2; minute < 6; minute++ {
		b.tick(t, minute, 3, "chat")
	}
	a.tick(t, 2, 4, "chat")
	a.tick(t, 4, 3, "chat") // without tick 3
	a.tick(t, 7, 3, "chat")
	if got := a.Counters(); got != (Counters{Stored: 2, Repeated: 1, Divergent: 1}) {
		t.Errorf("%+v", got)
	}
}

// TestLargeTick: a tick that is too large for one batch is stored completely. A second writer finds all of it.
func TestLargeTick(t *testing.T) {
	js, _ := serve(t)
	var pools []string
	for i := range 510 {
		pools = append(pools, fmt.Sprint("pool-", i))
	}
	a, b := write(t, js, "a"), write(t, js, "b")
	for minute := 1; minute < 3; minute++ {
		a.tick(t, minute, 3, pools...)
		b.tick(t, minute, 3, pools...)
	}
	if n, got, again := messages(t, js), a.Counters().Stored, b.Counters().Repeated; n != 2040 || got != 1020 || again != 1020 {
		t.Errorf("%d messages, %d decisions stored and %d repeated; want 2040, 1020 and 1020", n, got, again)
	}
}

// TestLargeTickOfTwoWriters: another writer stored one pool's decision of a tick that is too large for one batch. The
// notices of pools without a decision are stored, and no notice is stored twice.
func TestLargeTickOfTwoWriters(t *testing.T) {
	js, _ := serve(t)
	alert := func(pool string) alerting.Notice {
		return alerting.Notice{Alert: &alerting.Alert{Name: alerting.TelemetryStale, Labels: map[string]string{"pool": pool}, Resolved: true}}
	}
	const pools, late = 510, 333 // each pool has three messages, so the 1000th is a notice of pool 333
	add := func(w *writer, minute, first, end int, notices ...alerting.Notice) {
		t.Helper()
		var records []Record
		for i := first; i < end; i++ {
			d := alerting.Decision{Pool: fmt.Sprint("pool-", i), Tick: noon.Add(time.Duration(minute) * time.Minute), Desired: 3}
			records = append(records, Record{Decision: d})
			notices = append(notices, alert(d.Pool), alerting.Notice{Decision: &d})
		}
		if err := w.Add(noon.Add(time.Duration(minute)*time.Minute), records, notices); err != nil {
			t.Fatal(err)
		}
		if err := w.Await(t.Context(), w.Added()); err != nil {
			t.Fatal(err)
		}
	}
	a, b := write(t, js, "a"), write(t, js, "b")
	add(a, 1, 0, pools)
	add(b, 1, 0, pools)
	add(b, 2, late, late+1)
	add(a, 2, 0, pools, alert("gone"), alert("old"))
	s := must(js.Stream(t.Context(), "FOREWARM_DECISIONS"))
	if _, err := s.GetLastMsgForSubject(t.Context(), "forewarm.notice.alert.gone.>"); err != nil {
		t.Errorf("the notice of a pool without a decision: %v", err)
	}
	if got, want := s.CachedInfo().State.LastSeq, uint64(2*3*pools+2); got != want {
		t.Errorf("%d messages were stored, want %d", got, want)
	}
}

// TestNoticesWithoutADecision: the first writer stores the notices of pools that have no decision in a tick.
func TestNoticesWithoutADecision(t *testing.T) {
	js, _ := serve(t)
	a, b := write(t, js, "a"), write(t, js, "b")
	gone := alerting.Notice{Alert: &alerting.Alert{Name: alerting.TelemetryStale, Labels: map[string]string{"pool": "gone"}, Resolved: true}}
	add := func(w *writer, minute int, records ...Record) {
		t.Helper()
		if err := w.Add(noon.Add(time.Duration(minute)*time.Minute), records, []alerting.Notice{gone}); err != nil {
			t.Fatal(err)
		}
		if err := w.Await(t.Context(), w.Added()); err != nil {
			t.Fatal(err)
		}
	}
	chat := Record{Decision: alerting.Decision{Pool: "chat", Tick: noon.Add(time.Minute)}}
	add(a, 1, chat)
	add(b, 1, chat)
	if n := messages(t, js); n != 2 {
		t.Errorf("%d messages, want a decision and a notice", n)
	}
	add(a, 1)
	if n := messages(t, js); n != 2 {
		t.Errorf("%d messages, want none of a tick that is stored", n)
	}
	add(a, 2)
	if n := messages(t, js); n != 3 {
		t.Errorf("%d messages, want one more", n)
	}
}

// TestManyNoticesWithoutADecision: notices that need several batches are stored in the order in which they were added.
func TestManyNoticesWithoutADecision(t *testing.T) {
	js, _ := serve(t)
	a := write(t, js, "a")
	var notices []alerting.Notice
	for i := range 2*maxBatch + 1 {
		notices = append(notices, alerting.Notice{Alert: &alerting.Alert{Name: alerting.TelemetryStale, Labels: map[string]string{"pool": fmt.Sprint(i)}}})
	}
	if err := a.Add(noon, nil, notices); err != nil {
		t.Fatal(err)
	}
	if err := a.Await(t.Context(), a.Added()); err != nil {
		t.Fatal(err)
	}
	s := must(js.Stream(t.Context(), "FOREWARM_DECISIONS"))
	for i := range notices {
		want := fmt.Sprintf("forewarm.notice.alert.%d.", i)
		if m := must(s.GetMsg(t.Context(), uint64(i+1))); !strings.HasPrefix(m.Subject, want) {
			t.Fatalf("message %d is on %s, want %s…", i+1, m.Subject, want)
		}
	}
}

// TestForeignMessage: a message that is no decision stops the log. The error says how to remove it. Without the message
// the log continues.
func TestForeignMessage(t *testing.T) {
	js, _ := serve(t)
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "forewarm.decision.chat", Data: []byte("?")}); err != nil {
		t.Fatal(err)
	}
	w := write(t, js, "a")
	if err := w.Add(noon, []Record{{Decision: alerting.Decision{Pool: "chat", Tick: noon}}}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Await(ctx, w.Added()); err == nil || !strings.Contains(err.Error(), "remove it with nats stream rmm FOREWARM_DECISIONS 1") {
		t.Errorf("error %v", err)
	}
	s, err := js.Stream(t.Context(), "FOREWARM_DECISIONS")
	if err == nil {
		err = s.DeleteMsg(t.Context(), 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the tick to be stored", func() bool { return w.Counters().Stored == 1 })
}

// TestQueueRedelivers: a notice is redelivered with the same id until it is settled, also to a second daemon. The queue
// works again after its consumer or its stream was deleted.
func TestQueueRedelivers(t *testing.T) {
	js, deliveries := serve(t)
	a, b := write(t, js, "a"), write(t, js, "b")
	a.tick(t, 1, 3, "chat")
	next := func(q *Queue) *alerting.Delivery {
		t.Helper()
		for {
			d := must(q.Next(t.Context()))
			if d != nil {
				return d
			}
		}
	}
	hung, q := a.Queue(deliveries, "ops", false), b.Queue(deliveries, "ops", false)
	hung.wait, q.wait = time.Second, time.Second
	first, again := next(hung), next(q)
	if first.Notice.ID() != again.Notice.ID() {
		t.Errorf("%s is redelivered with id %s", first.Notice.ID(), again.Notice.ID())
	}
	if err := again.Settle(); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), "FOREWARM_DECISIONS", q.name); err != nil { // by an operator
		t.Fatal(err)
	}
	q.consumer = nil
	a.tick(t, 2, 4, "chat")
	if n := next(q).Notice; n.Decision.Generation != 2 {
		t.Errorf("after the consumer was deleted: generation %d, want 2", n.Decision.Generation)
	}

	// The stream is created again. Its sequence starts at 1, which is below the last one that the queue settled.
	q.settled = 100
	if err := js.DeleteStream(t.Context(), "FOREWARM_DECISIONS"); err != nil {
		t.Fatal(err)
	}
	made := jetstream.Inspect(t.Context(), js, jetstream.DefaultConfig()).Made
	if !slices.Contains(made, "FOREWARM_DECISIONS") {
		t.Fatalf("streams %v were created again, want %s", made, "FOREWARM_DECISIONS")
	}
	if again := jetstream.Inspect(t.Context(), js, jetstream.DefaultConfig()); len(again.Made)+len(again.Faults) > 0 {
		t.Errorf("streams %v were created twice: %v", again.Made, again.Faults)
	}
	q.consumer = nil
	a.tick(t, 3, 5, "chat")
	if n := next(q).Notice; n.Decision.Generation != 3 {
		t.Errorf("after the stream was deleted: generation %d, want 3", n.Decision.Generation)
	}
}

// TestUnreadableNewestNotice: if the newest notice of a subject cannot be decoded, a newer report replaces it, and the
// notice before it is delivered.
func TestUnreadableNewestNotice(t *testing.T) {
	js, deliveries := serve(t)
	a := write(t, js, "a")
	a.tick(t, 1, 3, "chat")
	d := must(a.Queue(deliveries, "ops", false).Next(t.Context()))
	for _, subject := range []string{"forewarm.notice.prescale.chat._", "forewarm.notice.report._._"} {
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: []byte("?")}); err != nil {
			t.Fatal(err)
		}
	}
	if n, replaced, err := d.Newer(t.Context()); replaced || err != nil {
		t.Errorf("replaced by %+v: %t, %v", n, replaced, err)
	}
	if r, err := a.Reported(t.Context()); r != nil || err != nil {
		t.Errorf("the newest report is %+v, %v; want none", r, err)
	}
	if err := a.AddNotice(t.Context(), alerting.Notice{Report: &alerting.Report{ID: "week"}}); err != nil {
		t.Error(err)
	}
	if r, err := a.Reported(t.Context()); r == nil || r.ID != "week" || err != nil {
		t.Errorf("the newest report is %+v, %v; want the added one", r, err)
	}
}

// FuzzDecode: decoding any bytes gives a valid decision or an error.
func FuzzDecode(f *testing.F) {
	decision, err := encoding.Marshal(&alerting.Decision{Pool: "chat", Tick: noon, Desired: 3})
	if err != nil {
		f.Fatal(err)
	}
	valid, err := encoding.Marshal(&record{decision, []byte("state")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte("?"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if x, err := decode(data); err == nil && x.Decision.Tick.IsZero() {
			t.Error("decoded a decision without a tick")
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
