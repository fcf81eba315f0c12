package main

import (
	order "cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestKills kills the daemon, or makes it reload its configuration, at random moments while a trace is replayed. The
// NATS server is inside the daemon or outside. State, decisions and newest advice must be those of an undisturbed
// daemon.
func TestKills(t *testing.T) {
	t.Parallel()
	const length = 3 * time.Hour
	trace := writeTrace(t, filepath.Join(t.TempDir(), "trace.csv"), length)
	kills := 10
	if testing.Short() {
		kills = 3
	}
	want := newSite(t, trace, length).play(t, 0)
	if want.Snapshot == "" || !strings.HasPrefix(want.Decisions, "up to ") {
		t.Fatalf("an undisturbed daemon stored:\n%+v", want)
	}
	if len(want.Newest) != 1 {
		t.Fatalf("an undisturbed daemon advised %d pools, want 1", len(want.Newest))
	}
	for name, tc := range map[string]struct {
		kills            int
		reload, external bool
	}{"embedded": {kills: kills}, "reload": {kills: kills, reload: true}, "external": {kills: 3, external: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, trace, length)
			if s.reload = tc.reload; tc.external {
				s.serveNATS(t)
			}
			if diff := cmp.Diff(want, s.play(t, tc.kills)); diff != "" {
				t.Errorf("(-undisturbed +%s):\n%s", name, diff)
			}
		})
	}
}

// site has the addresses, directories and configuration of one daemon.
type site struct {
	trace, config, data, store string
	nats, http                 string
	length                     time.Duration // of the trace
	reload                     bool          // the daemon is not killed, but reloads its configuration
	password                   string        // the password file of the external server
}

func newSite(t *testing.T, trace string, length time.Duration) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{
		trace: trace, length: length, config: filepath.Join(dir, "forewarm.yaml"), data: filepath.Join(dir, "data"), store: filepath.Join(dir, "nats"),
		nats: testenv.FreeAddress(t), http: testenv.FreeAddress(t),
	}
	s.write(t, "nats: {embedded: {listen: "+s.nats+", store_dir: "+s.store+"}}")
	return s
}

func (s *site) write(t *testing.T, nats string) {
	t.Helper()
	testenv.WriteFile(t, s.config, nats,
		"clock: event",
		"features: {lateness: 0s}",
		"storage: {dir: "+s.data+", snapshot_every: 100ms}",
		"server: {listen: "+s.http+"}",
		"log: {level: warn}",
		"pools:",
		"  - {name: fleet, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 40}}",
	)
}

// serveNATS runs the NATS server in the test's process, which is not killed.
func (s *site) serveNATS(t *testing.T) {
	t.Helper()
	c := jetstream.DefaultConfig()
	c.Embedded = jetstream.EmbeddedConfig{Listen: s.nats, StoreDir: s.store}
	e, err := jetstream.StartEmbedded(t.Context(), c, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Shutdown)
	s.password = jetstream.CredentialFile(s.store)
	s.write(t, "nats: {url: "+e.URL()+", user: forewarm, password_file: "+s.password+"}")
}

// storedState is what a daemon stored, so that two daemons can be compared.
type storedState struct {
	Snapshot, Decisions string
	Newest              map[string]string // subject to the newest pre-scale event on it
}

// play replays the trace to a daemon that is killed so many times. It returns what the daemon stored.
func (s *site) play(t *testing.T, kills int) storedState {
	t.Helper()
	began := time.Now()
	daemon := start(t, "serve", "-config", s.config)
	testenv.Await(t, "the daemon to answer", func() bool { _, err := statusOf(s.http); return err == nil || daemon.over() })
	speed := "0"
	if kills > 0 {
		speed = strconv.Itoa(int(s.length.Seconds()) / (kills + 1)) // the replay must last until the last kill
	}
	producer := start(t, "replay", "-nats", "nats://"+s.nats, "-pool", "fleet", "-run-id", "same", "-speed", speed, s.trace)
	testenv.Await(t, "the replay to begin", func() bool { // it fails if the daemon is killed before
		st, err := statusOf(s.http)
		return producer.over() || err == nil && st.Sequence > 0
	})
	random := rand.New(rand.NewPCG(1, uint64(kills)))
	for range kills {
		timer := time.NewTimer(time.Duration(50+random.IntN(900)) * time.Millisecond)
		<-timer.C
		if s.reload {
			_ = daemon.cmd.Process.Signal(syscall.SIGHUP) // an exit is detected below
			continue
		}
		daemon.kill(t)
		daemon = start(t, "serve", "-config", s.config)
	}
	during := kills == 0 || !producer.over()
	producer.wait(t)
	var records, messages uint64
	if _, err := fmt.Sscanf(producer.out.String(), "replayed %d records in %d messages", &records, &messages); err != nil {
		t.Fatalf("replay printed %q: %v", producer.out.String(), err)
	}
	testenv.Await(t, fmt.Sprintf("message %d to be applied", messages), func() bool {
		st, err := statusOf(s.http)
		return daemon.over() || err == nil && st.Sequence >= messages && st.Lag != nil && *st.Lag == 0
	})
	s.delivered(t)
	daemon.stop(t)
	if !during {
		t.Errorf("the replay was over before the last of %d kills", kills)
	}
	t.Logf("%d kills, %d messages, %s; %s", kills, messages, time.Since(began).Round(10*time.Millisecond), producer.out.String())
	return readStored(t, s.config)
}

// delivered waits until the log has all ticks, and the stream of signals has all their events.
func (s *site) delivered(t *testing.T) {
	t.Helper()
	c := jetstream.DefaultConfig()
	c.URL, c.User, c.PasswordFile = "nats://"+s.nats, "forewarm", order.Or(s.password, jetstream.CredentialFile(s.store))
	conn, err := jetstream.Connect(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the events of the log to be delivered", func() bool {
		if _, page := testenv.Get("http://" + s.http + "/metrics"); !strings.Contains(page, "\nforewarm_log_waiting 0\n") {
			return false
		}
		sink, err := js.Consumer(t.Context(), "FOREWARM_DECISIONS", "sink-signals-nats")
		return err == nil && sink.CachedInfo().NumPending == 0 && sink.CachedInfo().NumAckPending == 0
	})
}

func storedMessages(t *testing.T, js natsjs.JetStream, name string) (all []*natsjs.RawStreamMsg) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	stream, err := js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	state := stream.CachedInfo().State
	for sequence := state.FirstSeq; sequence <= state.LastSeq; sequence++ {
		m, err := stream.GetMsg(ctx, sequence)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// writeTrace writes traffic of three classes. After two thirds of it, the requests of agents rise to six times their
// rate within half an hour.
func writeTrace(t *testing.T, path string, length time.Duration) string {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	type request struct {
		at   float64
		line string
	}
	var all []request
	launch := length.Seconds() * 2 / 3
	for _, c := range []struct {
		class          string
		perMinute      float64
		prompt, output int
	}{{"chat", 30, 800, 300}, {"agent", 15, 4000, 500}, {"batch", 5, 12000, 200}} {
		for at := 0.0; at < length.Seconds(); {
			rate := c.perMinute / 60
			if c.class == "agent" {
				rate *= 1 + 5*min(max(at-launch, 0)/1800, 1)
			}
			at += random.ExpFloat64() / rate
			prompt := 1 + random.IntN(2*c.prompt)
			all = append(all, request{at, fmt.Sprintf("%.3f,%s,%d,%d,%d,s%d", at, c.class, prompt, prompt/3, 1+random.IntN(2*c.output), random.IntN(500))})
		}
	}
	slices.SortFunc(all, func(a, b request) int { return order.Compare(a.at, b.at) })
	lines := []string{"t_s,class,prompt_tokens,cached_tokens,output_tokens,session"}
	for _, r := range all {
		lines = append(lines, r.line)
	}
	return testenv.WriteFile(t, path, lines...)
}
