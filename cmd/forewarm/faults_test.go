package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
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
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/server/keda"
	kedapb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
	"github.com/forewarm/forewarm/storage/stream"
)

// TestFaults runs two daemons on one log while something fails, with one NATS server or three. After each fault, each
// tick has one decision, and the decisions are those of a run without faults. The webhook has the newest advice, and no
// id twice unless a daemon was killed. The test prints the table of docs/durability.md. FOREWARM_KILLS is the number of
// kills at random moments; if it is set, the long cases run as well.
func TestFaults(t *testing.T) {
	t.Parallel()
	kills, long := 12, false
	if n, err := strconv.Atoi(os.Getenv("FOREWARM_KILLS")); err == nil {
		kills, long = n, true
	}
	moments, longMoments := rand.New(rand.NewPCG(24, 24)), rand.New(rand.NewPCG(24, 25))
	faults := []fault{
		{name: "either of two daemons killed at random moments", minutes: 3*kills + 10, twice: true, at: func(h *pair, t *testing.T, m int) {
			if m%3 == 2 && m/3 < kills {
				i := moments.IntN(2)
				h.pause(time.Duration(moments.IntN(300)) * time.Millisecond)
				h.daemons[i].kill(t)
				h.start(t, i)
			}
		}},
		{name: "a daemon takes up an older snapshot", twice: true, at: (*pair).olderSnapshot},
		{name: "one daemon cut off from NATS", at: func(h *pair, _ *testing.T, m int) {
			switch m {
			case 10:
				h.proxy.set(false)
			case 25:
				h.proxy.set(true)
			}
		}},
		{name: "object store full", twice: true, at: func(h *pair, t *testing.T, m int) {
			switch m {
			case 10:
				h.must(t, h.limitState(t, 1024))
			case 25:
				if _, ready := testenv.Get("http://" + h.http[0] + "/readyz"); !strings.Contains(ready, "snapshot: ") {
					t.Error("the object store is full, and /readyz does not say so")
				}
				for i := range h.daemons {
					h.daemons[i].kill(t)
					h.start(t, i)
				}
			case 30:
				h.must(t, h.limitState(t, -1))
			}
		}},
		{name: "queue of a sink deleted", at: func(h *pair, t *testing.T, m int) {
			if m == 20 {
				h.must(t, h.js.DeleteConsumer(t.Context(), "FOREWARM_DECISIONS", webhookQueue))
			}
		}},
		{name: "telemetry stream purged", at: func(h *pair, t *testing.T, m int) {
			if m == 20 {
				h.settled(t)
				s, err := h.js.Stream(t.Context(), "FOREWARM_TELEMETRY")
				h.must(t, err)
				h.must(t, s.Purge(t.Context()))
			}
		}},
		{name: "webhook and Alertmanager away and back", at: func(h *pair, _ *testing.T, m int) {
			h.hook.set(m < 10 || m > 25)
		}},
		{name: "leader of three servers stopped", servers: 3, long: true, at: func(h *pair, t *testing.T, m int) {
			switch m {
			case 10:
				h.stopLeader(t)
			case 25:
				h.startServer(t, h.stopped)
			}
		}},
		{name: "both daemons killed ten times in a long log", minutes: 1500, long: true, twice: true, at: func(h *pair, t *testing.T, m int) {
			switch m {
			case 10:
				h.killBoth(t)
			case 1499:
				for range 10 {
					h.startBoth(t)
					h.pause(time.Duration(500+longMoments.IntN(1500)) * time.Millisecond)
					h.killBoth(t)
				}
				h.startBoth(t)
			}
		}},
		{name: "rolling upgrade to another model", long: true, differs: true, at: func(h *pair, t *testing.T, m int) {
			if i := m/10 - 1; m%10 == 0 && i >= 0 && i < len(h.daemons) {
				if i == 0 {
					h.program = buildWith(t, map[string]string{"../../forecaster/network/weights.bin": otherModel(t)})
				}
				h.daemons[i].stop(t)
				h.start(t, i)
			}
		}},
	}
	want := map[int]*reference{} // by minutes
	var mu sync.Mutex            // guards table
	var table strings.Builder
	for _, f := range faults {
		if f.long && !long {
			continue
		}
		f.minutes, f.servers = cmp.Or(f.minutes, 40), cmp.Or(f.servers, 1)
		if want[f.minutes] == nil {
			want[f.minutes] = &reference{}
		}
		run := want[f.minutes]
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			run.once.Do(func() { run.runResult = newPair(t, 1).play(t, f.minutes, func(*pair, *testing.T, int) {}) })
			h, reference := newPair(t, f.servers), run.runResult
			got := h.play(t, f.minutes, f.at)
			if got.ticks != reference.ticks {
				t.Errorf("%d minutes have a decision, want %d", got.ticks, reference.ticks)
			}
			if same := got.digest == reference.digest && got.divergent == 0; same == f.differs {
				t.Errorf("%d decisions differ from the log; its digest is %s, without faults %s", got.divergent, got.digest, reference.digest)
			}
			if !f.differs && got.newest != reference.newest {
				t.Errorf("the newest advice is %q, want %q", got.newest, reference.newest)
			}
			if got.twice > 0 && !f.twice {
				t.Errorf("%d ids were delivered twice", got.twice)
			}
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&table, "| %s | %d | %d | %d | %d |\n", f.name, reference.ticks-got.ticks, got.divergent, got.delivered, got.twice)
		})
	}
	t.Cleanup(func() {
		t.Logf("\n| fault | minutes without a decision | decisions that differ | notifications | of these delivered twice |\n|---|---|---|---|---|\n%s", table.String())
	})
}

// fault is a case of TestFaults. at is called before the telemetry of each minute.
type fault struct {
	name    string
	servers int  // of NATS; 1 by default
	minutes int  // of telemetry; 40 by default
	long    bool // only with FOREWARM_KILLS
	twice   bool // an id may be delivered twice: a daemon may be killed between a delivery and its acknowledgement
	differs bool // the daemons have different models, so decisions differ
	at      func(h *pair, t *testing.T, minute int)
}

// webhookQueue is the name of the consumer that feeds the webhook.
const webhookQueue = "sink-signals-webhook_2fops"

// otherModel returns the file of weights, with each weight 1 % larger.
func otherModel(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../forecaster/network/weights.bin")
	if err != nil {
		t.Fatal(err)
	}
	sum := len(b) - 4 // where the checksum is
	for i := bytes.IndexByte(b, '\n') + 1; i < sum; i += 4 {
		w := math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
		binary.LittleEndian.PutUint32(b[i:], math.Float32bits(1.01*w))
	}
	binary.LittleEndian.PutUint32(b[sum:], crc32.ChecksumIEEE(b[:sum]))
	return string(b)
}

// reference is the result of a run without faults.
type reference struct {
	once sync.Once
	runResult
}

// runResult is the result of a run: the digest of the log, the id of the newest advice, and counts.
type runResult struct {
	digest, newest                     string
	ticks, divergent, delivered, twice int
}

// pair is two daemons, their NATS servers and a webhook.
type pair struct {
	options []*server.Options
	servers []*server.Server
	stopped int
	proxy   *proxy // between the second daemon and NATS
	hook    *receiver
	dirs    [2]string
	http    [2]string
	keda    [2]string
	program string // for the next starts of daemons; "" is that of other tests
	daemons [2]*process
	down    bool // both daemons are killed
	conn    *nats.Conn
	js      natsjs.JetStream
	last    uint64 // message of telemetry
}

func (h *pair) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newPair(t *testing.T, servers int) *pair {
	t.Helper()
	h := &pair{hook: newReceiver()}
	stores := t.TempDir() // removed after the cleanup that stops the servers
	t.Cleanup(func() {
		if t.Failed() {
			h.explain(t)
		}
		h.close()
	})
	var routes, urls []string
	for range servers {
		routes = append(routes, testenv.FreeAddress(t))
	}
	for i := range servers {
		address := testenv.FreeAddress(t)
		urls = append(urls, "nats://"+address)
		lines := []string{"listen: " + address, "server_name: n" + strconv.Itoa(i), "jetstream {store_dir: " + filepath.Join(stores, strconv.Itoa(i)) + "}"}
		if servers > 1 {
			lines = append(lines, "cluster {name: c, listen: "+routes[i]+", routes: [nats://"+strings.Join(routes, ", nats://")+"]}")
		}
		o, err := server.ProcessConfigFile(testenv.WriteFile(t, filepath.Join(t.TempDir(), "nats.conf"), lines...))
		h.must(t, err)
		o.NoSigs, o.NoLog = true, true
		h.options = append(h.options, o)
		h.servers = append(h.servers, nil)
		h.startServer(t, i)
	}
	var err error
	h.conn, err = nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	h.must(t, err)
	h.js, err = natsjs.New(h.conn)
	h.must(t, err)
	testenv.Await(t, "JetStream", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := h.js.AccountInfo(ctx)
		return err == nil
	})
	h.proxy = newProxy(t, strings.TrimPrefix(urls[0], "nats://"))
	for i := range h.daemons {
		h.dirs[i], h.http[i], h.keda[i] = t.TempDir(), testenv.FreeAddress(t), testenv.FreeAddress(t)
		url := strings.Join(urls, ",")
		if i == 1 && servers == 1 {
			url = "nats://" + h.proxy.Addr().String()
		}
		testenv.WriteFile(t, filepath.Join(h.dirs[i], "keys"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		testenv.WriteFile(t, filepath.Join(h.dirs[i], "forewarm.yaml"),
			fmt.Sprintf("nats: {url: %q, stream: {replicas: %d, max_bytes: 67108864}, decisions: {max_bytes: 67108864}}", url, servers),
			"clock: event", "features: {lateness: 0s}", "log: {level: warn}", "decision: {mode: active}",
			"storage: {dir: "+filepath.Join(h.dirs[i], "data")+", snapshot_every: 100ms}", "server: {listen: "+h.http[i]+"}", "keda: {listen: "+h.keda[i]+"}",
			"sinks: {alertmanager: {urls: ['"+h.hook.server.URL+"']}, webhooks: [{name: ops, url: '"+h.hook.server.URL+"', send: [prescale], secret_file: "+filepath.Join(h.dirs[i], "keys")+"}]}",
			"pools:", "  - {name: fleet, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 40}}")
		h.start(t, i)
		testenv.Await(t, "the daemon to answer", func() bool { _, err := statusOf(h.http[i]); return err == nil || h.daemons[i].over() })
	}
	return h
}

func (h *pair) start(t *testing.T, i int) {
	t.Helper()
	program, err := program()
	h.must(t, err)
	h.daemons[i] = startProgram(t, cmp.Or(h.program, program), "serve", "-config", filepath.Join(h.dirs[i], "forewarm.yaml"))
}

func (h *pair) startBoth(t *testing.T) {
	t.Helper()
	for i := range h.daemons {
		h.start(t, i)
	}
	h.down = false
}

func (h *pair) killBoth(t *testing.T) {
	t.Helper()
	for i := range h.daemons {
		h.daemons[i].kill(t)
	}
	h.down = true
}

// explain prints the output of the daemons, with the stacks of their goroutines.
func (h *pair) explain(t *testing.T) {
	for i, p := range h.daemons {
		if p == nil {
			continue
		}
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-p.exited:
		case <-time.After(10 * time.Second):
		}
		t.Logf("daemon %d:\n%s", i, p.out.String())
	}
}

func (h *pair) startServer(t *testing.T, i int) {
	t.Helper()
	s, err := server.NewServer(h.options[i].Clone())
	h.must(t, err)
	go s.Start()
	if !s.ReadyForConnections(testenv.Patience) {
		t.Fatal("nats-server does not start")
	}
	h.servers[i] = s
}

func (h *pair) stopLeader(t *testing.T) {
	t.Helper()
	s, err := h.js.Stream(t.Context(), "FOREWARM_DECISIONS")
	h.must(t, err)
	h.stopped, err = strconv.Atoi(strings.TrimPrefix(s.CachedInfo().Cluster.Leader, "n"))
	h.must(t, err)
	h.servers[h.stopped].Shutdown()
	h.servers[h.stopped].WaitForShutdown()
}

// pause waits before a kill.
func (h *pair) pause(d time.Duration) { <-time.After(d) }

// olderSnapshot stops the second daemon. Later it deletes the newer snapshot of the first, and starts the second again.
func (h *pair) olderSnapshot(t *testing.T, minute int) {
	t.Helper()
	switch minute {
	case 10:
		h.daemons[1].stop(t) // this saves a snapshot
	case 25:
		h.must(t, h.daemons[0].cmd.Process.Signal(syscall.SIGSTOP))
		bucket, err := h.js.ObjectStore(t.Context(), "FOREWARM_STATE")
		h.must(t, err)
		for _, x := range h.states(t)[:1] {
			h.must(t, bucket.Delete(t.Context(), x.Name))
		}
		h.start(t, 1)
		testenv.Await(t, "the second daemon to be back", func() bool { s, err := statusOf(h.http[1]); return h.daemons[1].over() || err == nil && s.Sequence > 0 })
		h.must(t, h.daemons[0].cmd.Process.Signal(syscall.SIGCONT))
	}
}

// states returns the snapshots, the newest first.
func (h *pair) states(t *testing.T) []stream.State {
	t.Helper()
	bucket, err := h.js.ObjectStore(t.Context(), "FOREWARM_STATE")
	h.must(t, err)
	all, err := stream.NewStates(bucket, "").List(t.Context())
	h.must(t, err)
	return all
}

func (h *pair) limitState(t *testing.T, most int64) error {
	s, err := h.js.Stream(t.Context(), "OBJ_FOREWARM_STATE")
	if err != nil {
		return err
	}
	c := s.CachedInfo().Config
	c.MaxBytes = most
	_, err = h.js.UpdateStream(t.Context(), c)
	return err
}

// play publishes so many minutes of telemetry, with demand that rises and falls. It returns what the daemons decided.
func (h *pair) play(t *testing.T, minutes int, at func(*pair, *testing.T, int)) (out runResult) {
	t.Helper()
	begin := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for m := range minutes {
		at(h, t, m)
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
		if m%3 != 0 && !h.down {
			testenv.Await(t, "a daemon to apply it", func() bool { return h.applied(0) || h.applied(1) })
		}
	}
	h.settled(t)
	reader := stream.NewReader(h.js, "FOREWARM_DECISIONS", "forewarm")
	sum := decisionsDigest(t, h.js)
	out.digest = hex.EncodeToString(sum[:4])
	var last alerting.Decision
	h.must(t, reader.Decisions(t.Context(), time.Time{}.AddDate(1, 0, 0), time.Unix(1<<40, 0), func(d *alerting.Decision) error {
		out.ticks++
		last = *d
		if d.Publish {
			out.newest = d.EventID()
		}
		return nil
	}))
	testenv.Await(t, "the newest advice to be delivered", func() bool { return h.hook.has(out.newest) })
	testenv.Await(t, "the queue of the webhook to be empty", func() bool {
		c, err := h.js.Consumer(t.Context(), "FOREWARM_DECISIONS", webhookQueue)
		return err == nil && c.CachedInfo().NumPending == 0 && c.CachedInfo().NumAckPending == 0
	})
	out.delivered, out.twice = h.hook.counts()
	divergent := regexp.MustCompile(`(?m)^forewarm_log_divergent_total (\d+)$`)
	for i := range h.daemons {
		_, page := testenv.Get("http://" + h.http[i] + "/metrics")
		if found := divergent.FindStringSubmatch(page); found != nil {
			n, _ := strconv.Atoi(found[1])
			out.divergent += n
		} else {
			t.Errorf("daemon %d has no metric forewarm_log_divergent_total", i)
		}
		if minutes > 60 { // shorter runs have no advice
			h.ask(t, i, &last)
			testenv.Await(t, "each daemon to see the state of the other", func() bool {
				_, ready := testenv.Get("http://" + h.http[i] + "/readyz")
				return strings.Contains(ready, "saved its state at")
			})
		}
	}
	return out
}

// ask checks that a daemon answers with the newest decision over KEDA, HTTP and PromQL.
func (h *pair) ask(t *testing.T, i int, want *alerting.Decision) {
	t.Helper()
	conn, err := grpc.NewClient(h.keda[i], grpc.WithTransportCredentials(insecure.NewCredentials()))
	h.must(t, err)
	defer conn.Close()
	got, err := kedapb.NewExternalScalerClient(conn).GetMetrics(t.Context(), &kedapb.GetMetricsRequest{
		MetricName: keda.MetricName, ScaledObjectRef: &kedapb.ScaledObjectRef{ScalerMetadata: map[string]string{"pool": "fleet"}}})
	if err != nil || got.MetricValues[0].MetricValueFloat != float64(want.Desired) {
		t.Errorf("daemon %d answers KEDA %v (%v), want %d", i, got, err, want.Desired)
	}
	if _, page := testenv.Get("http://" + h.http[i] + "/api/v1/pools/fleet/desired"); !strings.Contains(page, fmt.Sprintf(`"desired_replicas": %d,`, want.Desired)) {
		t.Errorf("daemon %d answers %s, want %d", i, page, want.Desired)
	}
	query := fmt.Sprintf(`http://%s/api/v1/query?query=forewarm_desired_replicas{role="all"}&time=%d`, h.http[i], want.Tick.Unix())
	if _, page := testenv.Get(query); !strings.Contains(page, fmt.Sprintf(`"%d"]`, want.Desired)) {
		t.Errorf("daemon %d answers %s to PromQL, want %d", i, page, want.Desired)
	}
}

func (h *pair) applied(i int) bool {
	s, err := statusOf(h.http[i])
	return err == nil && s.Sequence >= h.last
}

// settled waits until both daemons have applied all messages, and the log has their decisions.
func (h *pair) settled(t *testing.T) {
	t.Helper()
	for i := range h.daemons {
		testenv.Await(t, fmt.Sprintf("daemon %d to apply message %d, and to compare with the log", i, h.last), func() bool {
			if h.daemons[i].over() {
				t.Fatalf("daemon %d ended:\n%s", i, h.daemons[i].out.String())
			}
			_, page := testenv.Get("http://" + h.http[i] + "/metrics")
			return h.applied(i) && strings.Contains(page, "\nforewarm_log_waiting 0\n")
		})
	}
}

func (h *pair) close() {
	for _, p := range h.daemons {
		if p != nil {
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
	}
	if h.conn != nil {
		h.conn.Close()
	}
	for _, s := range h.servers {
		if s != nil {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
	h.hook.server.Close()
}

// receiver is a webhook and an Alertmanager. It can be away.
type receiver struct {
	server    *httptest.Server
	mu        sync.Mutex
	away      bool
	first     func()         // called at the next webhook request
	delivered map[string]int // number of requests by webhook id
}

func newReceiver() *receiver {
	h := &receiver{delivered: map[string]int{}}
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.away {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		if id := r.Header.Get("Webhook-Id"); id != "" {
			h.delivered[id]++
			if h.first != nil {
				h.first()
				h.first = nil
			}
		}
	}))
	return h
}

func (h *receiver) set(up bool) { h.mu.Lock(); defer h.mu.Unlock(); h.away = !up }

func (h *receiver) has(id string) bool { h.mu.Lock(); defer h.mu.Unlock(); return h.delivered[id] > 0 }

// counts returns the number of ids, and of those delivered more than once.
func (h *receiver) counts() (delivered, twice int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.delivered {
		delivered++
		if n > 1 {
			twice++
		}
	}
	return delivered, twice
}

// requests returns the number of webhook requests.
func (h *receiver) requests() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.delivered {
		n += x
	}
	return n
}

// proxy is a TCP proxy that can be shut.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	open  bool
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &proxy{Listener: l, open: true, conns: map[net.Conn]bool{}}
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

func (d *proxy) set(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open = open; !open {
		for c := range d.conns {
			_ = c.Close()
		}
		clear(d.conns)
	}
}
