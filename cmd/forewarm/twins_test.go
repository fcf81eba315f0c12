package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/storage/stream"
)

// TestFaults has two daemons fold one log while something breaks, on one NATS server or on three. After each fault the decisions
// are those of a run in which nothing broke, every tick has one, and the webhook was told of the newest advice, under no id twice
// unless a daemon was killed. It prints the table of docs/durability.md. FOREWARM_KILLS is the number of kills at random moments.
func TestFaults(t *testing.T) {
	kills := 12
	if n, err := strconv.Atoi(os.Getenv("FOREWARM_KILLS")); err == nil {
		kills = n
	}
	const minutes = 40
	random := rand.New(rand.NewPCG(24, 24))
	faults := []struct {
		name    string
		servers int
		minutes int
		mayTell bool // an id twice, because a daemon may be killed between a delivery and its acknowledgement
		at      func(h *house, minute int)
	}{
		{"either twin killed at random moments", 1, 3*kills + 10, true, func(h *house, m int) {
			if m%3 == 2 && m/3 < kills {
				i := random.IntN(2)
				h.pause(time.Duration(random.IntN(300)) * time.Millisecond)
				h.twins[i].kill(t)
				h.start(t, i)
			}
		}},
		{"a twin takes up an older snapshot", 1, minutes, true, func(h *house, m int) { h.olderSnapshot(t, m) }},
		{"one twin cut off from NATS", 1, minutes, false, func(h *house, m int) {
			switch m {
			case 10:
				h.door.set(false)
			case 25:
				h.door.set(true)
			}
		}},
		{"object store full", 1, minutes, true, func(h *house, m int) {
			switch m {
			case 10:
				h.must(h.limitState(t, 1024))
			case 25:
				if _, ready := get("http://" + h.http[0] + "/readyz"); !strings.Contains(ready, "snapshot: ") {
					t.Error("the object store is full, and /readyz does not say so")
				}
				for i := range h.twins {
					h.twins[i].kill(t)
					h.start(t, i)
				}
			case 30:
				h.must(h.limitState(t, -1))
			}
		}},
		{"queue of a sink deleted", 1, minutes, false, func(h *house, m int) {
			if m == 20 {
				h.must(h.js.DeleteConsumer(t.Context(), jetstream.DecisionsStream, "sink-signals-webhook_2fops"))
			}
		}},
		{"telemetry stream purged", 1, minutes, false, func(h *house, m int) {
			if m == 20 {
				h.settled(t)
				s, err := h.js.Stream(t.Context(), "FOREWARM_TELEMETRY")
				h.must(err)
				h.must(s.Purge(t.Context()))
			}
		}},
		{"webhook away and back", 1, minutes, false, func(h *house, m int) {
			h.hook.set(m < 10 || m > 25)
		}},
		{"leader of the log stopped, of three servers", 3, minutes, false, func(h *house, m int) {
			switch m {
			case 10:
				h.stopLeader(t)
			case 25:
				h.startServer(t, h.stopped)
			}
		}},
	}
	want := map[int]remnant{}
	var table strings.Builder
	for _, fault := range faults {
		if fault.servers > 1 && os.Getenv("FOREWARM_KILLS") == "" {
			continue // three servers in one process, beside other tests, are at times too slow
		}
		if _, ok := want[fault.minutes]; !ok {
			h := newHouse(t, 1)
			want[fault.minutes] = h.play(t, fault.minutes, func(*house, int) {})
			h.close(t)
		}
		began := time.Now()
		h := newHouse(t, fault.servers)
		got := h.play(t, fault.minutes, fault.at)
		h.close(t)
		unbroken := want[fault.minutes]
		if got.digest != unbroken.digest || got.ticks != unbroken.ticks {
			t.Errorf("%s: %d decisions with digest %s, of an unbroken run %d with %s", fault.name, got.ticks, got.digest, unbroken.ticks, unbroken.digest)
		}
		if got.divergent != 0 {
			t.Errorf("%s: %d decisions differ from the log", fault.name, got.divergent)
		}
		if got.newest != unbroken.newest || !h.hook.has(got.newest) {
			t.Errorf("%s: the newest advice is %q, of an unbroken run %q", fault.name, got.newest, unbroken.newest)
		}
		if got.twice > 0 && !fault.mayTell {
			t.Errorf("%s: %d ids were told twice", fault.name, got.twice)
		}
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d |\n", fault.name, unbroken.ticks-got.ticks, got.divergent, got.told, got.twice)
		t.Logf("%s: %s", fault.name, time.Since(began).Round(time.Millisecond))
	}
	t.Logf("\n| fault | minutes without a decision | decisions that differ | notices told | of these twice |\n|---|---|---|---|---|\n%s", table.String())
}

// remnant is what a run left.
type remnant struct {
	digest, newest                string
	ticks, divergent, told, twice int
}

// house is two daemons, their NATS servers and a webhook.
type house struct {
	options []*server.Options
	servers []*server.Server
	stopped int
	door    *door // of the second twin to NATS
	hook    *receiver
	dirs    [2]string
	http    [2]string
	twins   [2]*process
	conn    *nats.Conn
	js      natsjs.JetStream
	must    func(error)
	last    uint64 // message of telemetry
}

func newHouse(t *testing.T, servers int) *house {
	t.Helper()
	h := &house{hook: newReceiver(), must: func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}}
	var routes, urls []string
	for range servers {
		routes = append(routes, testenv.FreeAddress(t))
	}
	for i := range servers {
		address := testenv.FreeAddress(t)
		urls = append(urls, "nats://"+address)
		lines := []string{"listen: " + address, "server_name: n" + strconv.Itoa(i), "jetstream {store_dir: " + t.TempDir() + "}"}
		if servers > 1 {
			lines = append(lines, "cluster {name: c, listen: "+routes[i]+", routes: [nats://"+strings.Join(routes, ", nats://")+"]}")
		}
		o, err := server.ProcessConfigFile(writeFile(t, filepath.Join(t.TempDir(), "nats.conf"), lines...))
		h.must(err)
		o.NoSigs, o.NoLog = true, true
		h.options = append(h.options, o)
		h.servers = append(h.servers, nil)
		h.startServer(t, i)
	}
	var err error
	h.conn, err = nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	h.must(err)
	h.js, err = natsjs.New(h.conn)
	h.must(err)
	testenv.Await(t, "JetStream", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := h.js.AccountInfo(ctx)
		return err == nil
	})
	h.door = newDoor(t, strings.TrimPrefix(urls[0], "nats://"))
	for i := range h.twins {
		h.dirs[i], h.http[i] = t.TempDir(), testenv.FreeAddress(t)
		url := strings.Join(urls, ",")
		if i == 1 && servers == 1 {
			url = "nats://" + h.door.Addr().String()
		}
		writeFile(t, filepath.Join(h.dirs[i], "keys"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		writeFile(t, filepath.Join(h.dirs[i], "forewarm.yaml"),
			fmt.Sprintf("nats: {url: %q, stream: {replicas: %d, max_bytes: 67108864}, decisions: {max_bytes: 67108864}}", url, servers),
			"clock: event", "features: {lateness: 0s}", "log: {level: warn}", "decision: {mode: active}",
			"storage: {dir: "+filepath.Join(h.dirs[i], "data")+", snapshot_every: 100ms}", "server: {listen: "+h.http[i]+"}",
			"sinks: {delivery: {max_backoff: 1s}, webhooks: [{name: ops, url: '"+h.hook.server.URL+"', send: [prescale], secret_file: "+filepath.Join(h.dirs[i], "keys")+"}]}",
			"pools:", "  - {name: fleet, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 40}}")
		h.start(t, i)
		testenv.Await(t, "the daemon to answer", func() bool { _, err := statusOf(h.http[i]); return err == nil || h.twins[i].over() })
	}
	return h
}

func (h *house) start(t *testing.T, i int) {
	t.Helper()
	h.twins[i] = start(t, "serve", "-config", filepath.Join(h.dirs[i], "forewarm.yaml"))
}

func (h *house) startServer(t *testing.T, i int) {
	t.Helper()
	s, err := server.NewServer(h.options[i].Clone())
	h.must(err)
	go s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("nats-server does not start")
	}
	h.servers[i] = s
}

func (h *house) stopLeader(t *testing.T) {
	t.Helper()
	s, err := h.js.Stream(t.Context(), jetstream.DecisionsStream)
	h.must(err)
	h.stopped, err = strconv.Atoi(strings.TrimPrefix(s.CachedInfo().Cluster.Leader, "n"))
	h.must(err)
	h.servers[h.stopped].Shutdown()
	h.servers[h.stopped].WaitForShutdown()
}

// pause lets a random time pass before a kill.
func (h *house) pause(d time.Duration) { <-time.After(d) }

// olderSnapshot has the second twin come back to the snapshot that it left, where the other's is gone.
func (h *house) olderSnapshot(t *testing.T, minute int) {
	t.Helper()
	switch minute {
	case 10:
		h.twins[1].stop(t) // which saves a snapshot of its own
	case 25:
		h.must(h.twins[0].cmd.Process.Signal(syscall.SIGSTOP))
		bucket, err := h.js.ObjectStore(t.Context(), jetstream.StateBucket)
		h.must(err)
		for _, x := range h.states(t)[:1] {
			h.must(bucket.Delete(t.Context(), x.Name))
		}
		h.start(t, 1)
		testenv.Await(t, "the twin to be back", func() bool { s, err := statusOf(h.http[1]); return h.twins[1].over() || err == nil && s.Sequence > 0 })
		h.must(h.twins[0].cmd.Process.Signal(syscall.SIGCONT))
	}
}

// states are the snapshots, the newest first.
func (h *house) states(t *testing.T) []stream.State {
	t.Helper()
	bucket, err := h.js.ObjectStore(t.Context(), jetstream.StateBucket)
	h.must(err)
	all, err := stream.NewStates(bucket, "").List(t.Context())
	h.must(err)
	return all
}

func (h *house) limitState(t *testing.T, most int64) error {
	s, err := h.js.Stream(t.Context(), "OBJ_"+jetstream.StateBucket)
	if err != nil {
		return err
	}
	c := s.CachedInfo().Config
	c.MaxBytes = most
	_, err = h.js.UpdateStream(t.Context(), c)
	return err
}

// play publishes so many minutes of telemetry, with demand that rises and falls, and says what the twins make of it.
func (h *house) play(t *testing.T, minutes int, at func(*house, int)) (out remnant) {
	t.Helper()
	begin := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for m := range minutes {
		at(h, m)
		var b strings.Builder
		for i := range 6 + 2*(m%20) {
			fmt.Fprintf(&b, `{"arrived_at":%d,"prompt_tokens":500,"output_tokens":%d}`+"\n", begin.Add(time.Duration(m)*time.Minute+time.Duration(i)*time.Second).UnixMilli(), 300+50*(m%20))
		}
		msg := &nats.Msg{Subject: "forewarm.telemetry.request.fleet.chat", Data: []byte(b.String()), Header: nats.Header{"Content-Type": {"application/x-ndjson"}}}
		testenv.Await(t, "telemetry to be stored", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			ack, err := h.js.PublishMsg(ctx, msg, natsjs.WithMsgID("m-"+strconv.Itoa(m)))
			if err == nil {
				h.last = ack.Sequence
			}
			return err == nil
		})
		if m%3 != 0 {
			testenv.Await(t, "a twin to fold it", func() bool { return h.folded(0) || h.folded(1) })
		}
	}
	h.settled(t)
	reader := stream.NewReader(h.js, jetstream.DecisionsStream, "forewarm")
	sum, err := reader.Digest(t.Context())
	h.must(err)
	out.digest = hex.EncodeToString(sum[:4])
	h.must(reader.Read(t.Context(), time.Time{}.AddDate(1, 0, 0), time.Unix(1<<40, 0), func(d *alerting.Decision) error {
		out.ticks++
		if d.Publish {
			out.newest = d.EventID()
		}
		return nil
	}))
	testenv.Await(t, "the newest advice to be told", func() bool { return h.hook.has(out.newest) })
	testenv.Await(t, "nothing to wait for the sinks", func() bool {
		c, err := h.js.Consumer(t.Context(), jetstream.DecisionsStream, "sink-signals-webhook_2fops")
		return err == nil && c.CachedInfo().NumPending == 0 && c.CachedInfo().NumAckPending == 0
	})
	out.told, out.twice = h.hook.counts()
	divergent := regexp.MustCompile(`(?m)^forewarm_log_divergent_total (\d+)$`)
	for i := range h.twins {
		_, page := get("http://" + h.http[i] + "/metrics")
		if found := divergent.FindStringSubmatch(page); found != nil {
			n, _ := strconv.Atoi(found[1])
			out.divergent += n
		} else {
			t.Errorf("twin %d does not say how many decisions differ", i)
		}
		testenv.Await(t, "each twin to see the other", func() bool {
			_, ready := get("http://" + h.http[i] + "/readyz")
			return strings.Contains(ready, "(version ")
		})
	}
	return out
}

func (h *house) folded(i int) bool {
	s, err := statusOf(h.http[i])
	return err == nil && s.Sequence >= h.last
}

// settled waits until both twins have folded all, and the log has what they decided.
func (h *house) settled(t *testing.T) {
	t.Helper()
	for i := range h.twins {
		testenv.Await(t, fmt.Sprintf("twin %d to fold message %d, and to compare with the log", i, h.last), func() bool {
			if h.twins[i].over() {
				t.Fatalf("twin %d ended:\n%s", i, h.twins[i].out.String())
			}
			_, page := get("http://" + h.http[i] + "/metrics")
			return h.folded(i) && strings.Contains(page, "\nforewarm_log_waiting 0\n")
		})
	}
}

func (h *house) close(t *testing.T) {
	t.Helper()
	for _, p := range h.twins {
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	h.conn.Close()
	for _, s := range h.servers {
		s.Shutdown()
		s.WaitForShutdown()
	}
	h.hook.server.Close()
}

// receiver is a webhook that can be away.
type receiver struct {
	server *httptest.Server
	mu     sync.Mutex
	away   bool
	told   map[string]int
}

func newReceiver() *receiver {
	h := &receiver{told: map[string]int{}}
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.away {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		h.told[r.Header.Get("Webhook-Id")]++
	}))
	return h
}

func (h *receiver) set(up bool) { h.mu.Lock(); defer h.mu.Unlock(); h.away = !up }

func (h *receiver) has(id string) bool { h.mu.Lock(); defer h.mu.Unlock(); return h.told[id] > 0 }

func (h *receiver) counts() (told, twice int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.told {
		told++
		if n > 1 {
			twice++
		}
	}
	return told, twice
}

// door is a TCP proxy that can be shut.
type door struct {
	net.Listener
	mu    sync.Mutex
	open  bool
	conns map[net.Conn]bool
}

func newDoor(t *testing.T, to string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: l, open: true, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close(); d.set(false) })
	go func() {
		for {
			in, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			out, err := net.Dial("tcp", to)
			d.mu.Lock()
			if err != nil || !d.open {
				_ = in.Close()
				if err == nil {
					_ = out.Close()
				}
				d.mu.Unlock()
				continue
			}
			d.conns[in], d.conns[out] = true, true
			d.mu.Unlock()
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_ = in.Close()
					_ = out.Close()
				}()
			}
		}
	}()
	return d
}

func (d *door) set(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open = open; !open {
		for c := range d.conns {
			_ = c.Close()
		}
		clear(d.conns)
	}
}
