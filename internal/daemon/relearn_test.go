package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/storage/stream"
)

// replaceSnapshot replaces the snapshot of a data directory by one of the same sequence and stream, with changed parts.
func replaceSnapshot(t *testing.T, data string, change func(parts []map[int]cbor.RawMessage) []map[int]cbor.RawMessage) {
	t.Helper()
	site := openOffline(t, data)
	defer site.close()
	bucket := must(site.js.ObjectStore(t.Context(), "FOREWARM_STATE"))
	was := must(stream.NewStates(bucket, "").List(t.Context()))[0]
	states := stream.NewStates(bucket, strings.Split(was.Name, "/")[1])
	r := must(states.Open(t.Context(), was))
	state := must(io.ReadAll(r))
	_ = r.Close()
	var parts []map[int]cbor.RawMessage
	for rest := state; len(parts) < 2; {
		var part map[int]cbor.RawMessage
		rest = must(cbor.UnmarshalFirst(rest, &part))
		parts, state = append(parts, part), rest
	}
	var changed []byte
	for _, part := range change(parts) {
		changed = append(changed, must(cbor.Marshal(part))...)
	}
	changed = append(changed, state...)
	for range 2 { // a daemon keeps two snapshots
		must(states.Save(t.Context(), was, bytes.NewReader(changed)))
	}
}

// older lowers the version of a part.
func older(part map[int]cbor.RawMessage, by int) {
	var version int
	if err := cbor.Unmarshal(part[1], &version); err != nil {
		panic(err)
	}
	part[1] = must(cbor.Marshal(version - by))
}

// upgradeSite is the data of a stopped daemon. It has a pool that grows, an event that the webhook did not get, and a
// stream without its oldest messages.
type upgradeSite struct {
	dir, data string
	config    []string
	now       time.Time
	events    []alerting.Event // published on NATS
	journal   []alerting.Decision
}

const upgradePast = 100 // minutes

func newUpgradeSite(t *testing.T) *upgradeSite {
	t.Helper()
	s := &upgradeSite{dir: t.TempDir(), now: time.Now().UTC().Truncate(time.Minute)}
	keys := testenv.WriteFile(t, filepath.Join(s.dir, "keys"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	s.config = []string{
		"features: {future_bound: 20m, revise: 2m, lateness: 0s}", "decision: {mode: active}",
		"sinks: {webhooks: [{name: hook, url: 'http://127.0.0.1:1', send: [prescale], secret_file: " + keys + "}]}",
		"pools: [{name: chat, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 40}}]",
	}
	p := startDaemonIn(t, s.dir, s.config...)
	s.data = p.data
	s.minutes(t, p, -upgradePast, 5)
	s.journal = decisionsOf(t, p)
	stream := must(p.js.Stream(t.Context(), p.stream.Load().Config.Name))
	have := must(stream.Info(t.Context())).State
	if err := stream.Purge(t.Context(), natsjs.WithPurgeSequence(have.LastSeq*7/10)); err != nil {
		t.Fatal(err)
	}
	p.stop()
	return s
}

// copied copies the site to another directory.
func (s *upgradeSite) copied(t *testing.T) *upgradeSite {
	t.Helper()
	c := *s
	c.dir, c.config, c.events = t.TempDir(), slices.Clone(s.config), slices.Clone(s.events)
	c.data = filepath.Join(c.dir, "data")
	if err := os.CopyFS(c.data, os.DirFS(s.data)); err != nil {
		t.Fatal(err)
	}
	return &c
}

// minutes publishes the telemetry of some minutes and their watermarks, and collects the events.
func (s *upgradeSite) minutes(t *testing.T, p *inProcess, from, to int) {
	t.Helper()
	events := testenv.Subscribe(t, p.conn, "forewarm.prescale.chat")
	for m := from; m < to; m++ {
		at, tokens := s.now.Add(time.Duration(m)*time.Minute), 20000+100*(upgradePast+m)
		if m >= 5 {
			tokens *= 3
		}
		for i, class := range []string{"talk", "code"} {
			p.publish(t, "forewarm.telemetry.request.chat."+class, fmt.Appendf(nil,
				`{"start":%d,"requests":60,"prompt_tokens":30000,"output_tokens":%d}`, at.UnixMilli(), tokens*(i+1)), "Content-Type", codec.ContentTypeSum)
		}
		if m >= 0 { // records of the past are learned without watermarks
			p.publish(t, "forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, at.Add(time.Minute).UnixMilli()))
		}
	}
	p.settle(t)
	testenv.Await(t, "all notices to be delivered", func() bool { return p.dispatcher.Stats()[0].Queued == 0 })
	for m := range testenv.Messages(events) {
		e := parse[alerting.Event](t, m.Data)
		s.events = append(s.events, e)
	}
}

// hook is the consumer of a webhook. It keeps the ids of the messages that it got.
type hook struct {
	*httptest.Server
	mu  sync.Mutex
	ids []string
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ids = append(h.ids, r.Header.Get("webhook-id"))
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) got() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ids)
}

// TestUpgrade: a daemon has a snapshot of another version, or a damaged one. It learns from the stream, and from the
// stored series where the stream has no messages any more. It decides no minute twice, and generations continue. It
// delivers the notice that was not delivered, with the same id, and no other again.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	site := newUpgradeSite(t)
	for name, change := range map[string]func([]map[int]cbor.RawMessage) []map[int]cbor.RawMessage{
		"pipeline":   func(p []map[int]cbor.RawMessage) []map[int]cbor.RawMessage { older(p[0], 1); return p },
		"newer":      func(p []map[int]cbor.RawMessage) []map[int]cbor.RawMessage { older(p[0], -1); return p },
		"forecaster": func(p []map[int]cbor.RawMessage) []map[int]cbor.RawMessage { older(p[1], 1); return p },
		"unread":     func(p []map[int]cbor.RawMessage) []map[int]cbor.RawMessage { return p[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			s := site.copied(t)
			last := s.events[len(s.events)-1]
			replaceSnapshot(t, s.data, change)
			s.config[2] = strings.Replace(s.config[2], "http://127.0.0.1:1", h.URL, 1)
			before := len(h.got())

			p := startDaemonIn(t, s.dir, s.config...)
			testenv.Await(t, "the past to be learned", func() bool { return p.Status().Restored && caughtUp(p.Status()) })
			if got := p.Status().Restore; !strings.Contains(got, "2 not taken up") || !strings.Contains(got, "learned again") {
				t.Errorf("status: %q", got)
			}
			if diff := decisionsOf(t, p); len(diff) != len(s.journal) {
				t.Errorf("%d decisions are stored, want %d", len(diff), len(s.journal))
			}
			if n := p.decisions.Counters(); n.Repeated+n.Divergent != 0 {
				t.Errorf("stored decisions were added again: %+v", n)
			}
			testenv.Await(t, "the delivery of the waiting event", func() bool { return len(h.got()) > before })
			if got := h.got()[before:]; !slices.Equal(got, []string{last.ID}) {
				t.Errorf("the webhook got %q, want %q", got, last.ID)
			}
			known := len(s.events)
			s.minutes(t, p, 5, 10)
			for i, e := range s.events[known:] { // events that a newer one supersedes are not sent
				if e.Data.Generation <= s.events[known+i-1].Data.Generation {
					t.Errorf("event %s came after %s", e.ID, s.events[known+i-1].ID)
				}
			}
			if len(s.events) == known {
				t.Error("no event came")
			}
			learned := 0
			for _, f := range p.Pools()[0].Forecast.Total {
				learned = max(learned, f.Known)
			}
			if learned < upgradePast-5 {
				t.Errorf("%d minutes were learned, want %d", learned, upgradePast-5)
			}
			got := decisionsOf(t, p)
			if len(got) < len(s.journal)+5 {
				t.Errorf("%d decisions, want 5 more than %d", len(got), len(s.journal))
			}
			for i, generation := len(s.journal), last.Data.Generation; i < len(got); i++ {
				if got[i].Publish {
					generation++
				}
				if got[i].Generation != generation {
					t.Errorf("%s: generation %d, want %d", got[i].Tick, got[i].Generation, generation)
				}
			}
			if n := testenv.Metric(t, p.base, "forewarm_snapshots_refused_total"); n != 2 {
				t.Errorf("%g snapshots were refused, want 2", n)
			}
			_, ready := testenv.Get(p.base + "/readyz")
			if !strings.Contains(ready, "not taken up") {
				t.Errorf("/readyz: %s", ready)
			}
			p.stop()

			p = startDaemonIn(t, s.dir, s.config...)
			if got := p.Status().Restore; !strings.Contains(got, "snapshot at") {
				t.Errorf("status after the next start: %s", got)
			}
		})
	}
}

// TestSeriesAreACache: a daemon whose time-series database was deleted makes the same decisions. It stores series from
// then on, and does not restore the past.
func TestSeriesAreACache(t *testing.T) {
	t.Parallel()
	config := []string{"clock: event", "features: {lateness: 0s}", "pools: [{name: chat, decode_tokens_per_s: 400, itl: 25ms, replicas: {min: 1, max: 40}}]"}
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	play := func(p *inProcess, from, to int) {
		for m := from; m < to; m++ {
			at := start.Add(time.Duration(m) * time.Minute)
			p.publishMinute(t, "chat.talk", at, 2+m/4, 500, 300)
			p.publish(t, "forewarm.telemetry.watermark.chat", fmt.Appendf(nil, `{"at":%d}`, at.Add(time.Minute).UnixMilli()))
		}
		p.settle(t)
	}
	dir := t.TempDir()
	p := startDaemonIn(t, dir, config...)
	play(p, 0, 60)
	p.stop()
	decisions := map[bool][]alerting.Decision{}
	for deleted, minutes := range map[bool]float64{false: 80, true: 20} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if deleted {
			if err := os.RemoveAll(filepath.Join(copied, "data", "tsdb")); err != nil {
				t.Fatal(err)
			}
		}
		p := startDaemonIn(t, copied, config...)
		play(p, 60, 80)
		decisions[deleted] = decisionsOf(t, p)
		if n := testenv.Scalar(t, p.base, "count_over_time(forewarm_desired_replicas[10h])", start.Add(80*time.Minute)); n != minutes {
			t.Errorf("database deleted %t: %g minutes are stored, want %g", deleted, n, minutes)
		}
		p.stop()
	}
	if len(decisions[true]) != 80 {
		t.Errorf("%d decisions, want 80", len(decisions[true]))
	}
	if diff := cmp.Diff(decisions[false], decisions[true]); diff != "" {
		t.Error(diff)
	}
}

// TestLogAheadOfTheClock: a clock was ahead, and the log has decisions of the future. Until then nothing is decided.
// /readyz says so, and what to do.
func TestLogAheadOfTheClock(t *testing.T) {
	dir := t.TempDir()
	d := startDaemonIn(t, dir, "clock: event", "default_pool: {replicas: {max: 2}}")
	newest := time.Now().UTC().Truncate(time.Minute).Add(time.Hour)
	for m := range 4 {
		d.publishMinute(t, "chat.talk", newest.Add(time.Duration(m-3)*time.Minute), 3, 100, 10)
	}
	testenv.Await(t, "a decision of the future", func() bool { return d.Status().Tick.Equal(newest) })
	d.stop()
	site := openOffline(t, d.data)
	must(0, errors.Join(site.js.DeleteObjectStore(t.Context(), "FOREWARM_STATE"), must(site.js.Stream(t.Context(), "FOREWARM_TELEMETRY")).Purge(t.Context())))
	site.close()

	d = startDaemonIn(t, dir, "default_pool: {replicas: {max: 2}}")
	want := "the newest minute that was decided is " + newest.Format(time.RFC3339)
	testenv.Await(t, "the fault in the check of the stream", func() bool { return strings.Contains(d.Status().Stream, want) })
}
