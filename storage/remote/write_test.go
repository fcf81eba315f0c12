package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/forewarm/forewarm/storage"
)

var quiet = slog.New(slog.DiscardHandler)

// receiver takes remote write as the specification's own server does, and notes each sample as text.
type receiver struct {
	t       *testing.T
	accepts remoteapi.MessageTypes

	mu       sync.Mutex
	statuses []int // answered to the next requests in place of taking them; 0 breaks the connection off
	got      []string
	requests int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if len(r.statuses) > 0 {
		status := r.statuses[0]
		r.statuses = r.statuses[1:]
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		return
	}
	remoteapi.NewWriteHandler(r, r.accepts).ServeHTTP(w, q)
}

// Store implements what remoteapi.NewWriteHandler wants.
func (r *receiver) Store(q *http.Request, kind remoteapi.WriteMessageType) (*remoteapi.WriteResponse, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	resp := remoteapi.NewWriteResponse()
	builder := labels.NewScratchBuilder(0)
	note := func(ls labels.Labels, t int64, v float64) {
		r.got = append(r.got, fmt.Sprintf("%s %d %g", ls, t, v))
		resp.Samples++
	}
	switch kind {
	case remoteapi.WriteV1MessageType:
		var m prompb.WriteRequest
		if err := m.Unmarshal(body); err != nil {
			return nil, err
		}
		for _, s := range m.Timeseries {
			for _, x := range s.Samples {
				note(s.ToLabels(&builder, nil), x.Timestamp, x.Value)
			}
		}
	case remoteapi.WriteV2MessageType:
		var m writev2.Request
		if err := m.Unmarshal(body); err != nil {
			return nil, err
		}
		for _, s := range m.Timeseries {
			ls, err := s.ToLabels(&builder, m.Symbols)
			if err != nil {
				return nil, err
			}
			if meta, err := s.ToMetadata(m.Symbols); err != nil || meta.Type != "gauge" || (meta.Help == "") != strings.HasPrefix(ls.Get("__name__"), "x") {
				r.t.Errorf("%s: metadata %+v, %v", ls, meta, err)
			}
			for _, x := range s.Samples {
				note(ls, x.Timestamp, x.Value)
			}
		}
	}
	return resp, nil
}

// series are n samples, and what a receiver should note of them with cluster="eu" added.
func series(n int) (samples []storage.Sample, want []string) {
	for i := range n {
		ls := labels.FromStrings("__name__", []string{"forewarm_desired_replicas", "x"}[i%2], "pool", fmt.Sprint("p", i))
		samples = append(samples, storage.Sample{Labels: ls, T: int64(1000 * i), V: float64(i) / 3})
		want = append(want, fmt.Sprintf(`{__name__=%q, cluster="eu", pool="p%d"} %d %g`, ls.Get("__name__"), i, 1000*i, float64(i)/3))
	}
	return samples, want
}

// running is a writer at work, and what it tells.
type running struct {
	*Writer
	queue   *storage.Queue
	done    chan struct{} // a payload was dealt with
	trouble chan error
	stop    func()
}

// dealt waits until so many payloads were dealt with.
func (r *running) dealt(payloads int) {
	for range payloads {
		<-r.done
	}
}

// telling is a queue that tells of each payload that was dealt with.
type telling struct {
	Queue
	done chan struct{}
}

func (q telling) Done() {
	q.Queue.Done()
	q.done <- struct{}{}
}

// startWriter runs a writer over a queue in dir, of so many bytes, until stop.
func startWriter(t *testing.T, dir, url string, most int64, change func(*WriteConfig)) *running {
	t.Helper()
	q, err := storage.OpenQueue(dir, most, quiet)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultWrite()
	cfg.URL, cfg.SamplesPerRequest, cfg.Labels = url, 10, map[string]string{"cluster": "eu"}
	if change != nil {
		change(&cfg)
	}
	r := &running{queue: q, done: make(chan struct{}, 1000), trouble: make(chan error, 1)}
	r.Writer, err = NewWriter(cfg, telling{q, r.done}, quiet, func(err error) {
		select {
		case r.trouble <- err:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.pauses = remoteapi.BackoffConfig{Min: time.Millisecond, Max: 2 * time.Millisecond}
	if err := r.connect(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	r.stop = func() {
		cancel()
		<-ended
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
	return r
}

// Whatever the receiver answers for a while, every sample arrives, once it takes them; only what it refuses for what it is
// is left out, and counted.
func TestWriter(t *testing.T) {
	v1, v2 := remoteapi.MessageTypes{remoteapi.WriteV1MessageType}, remoteapi.MessageTypes{remoteapi.WriteV1MessageType, remoteapi.WriteV2MessageType}
	for name, c := range map[string]struct {
		protocol int
		accepts  remoteapi.MessageTypes
		statuses []int
		rejected int // requests
		retries  bool
	}{
		"version 1":              {1, v1, nil, 0, false},
		"version 2":              {2, v2, nil, 0, false},
		"version 2 to version 1": {2, v1, nil, 0, false},
		"version 2 unnoticed":    {2, v2, []int{204}, 0, false}, // a receiver that does not look at what it is sent
		"busy":                   {1, v1, []int{503, 429, 500, 502}, 0, true},
		"away":                   {1, v1, []int{0, 0, 0}, 0, true},
		"not known to it":        {1, v1, []int{401, 403, 404, 408, 302}, 0, true},
		"refused":                {1, v1, []int{400, 422}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{t: t, accepts: c.accepts, statuses: slices.Clone(c.statuses)}
			srv := httptest.NewUnstartedServer(r)
			srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
			srv.Start()
			defer srv.Close()
			w := startWriter(t, t.TempDir(), srv.URL+"/api/v1/push", 1<<20, func(cfg *WriteConfig) { cfg.Protocol = c.protocol })
			samples, want := series(45)
			w.Take(samples)
			w.dealt(5)
			w.stop()
			if diff := cmp.Diff(want[10*c.rejected:], r.got); diff != "" {
				t.Error(diff)
			}
			if s := w.Stats(); s.Rejected != uint64(10*c.rejected) || s.Lost != 0 || (s.Retries > 0) != c.retries {
				t.Errorf("%+v", s)
			}
		})
	}
}

// What was not sent before a restart is sent after it, also where the receiver was away for all of the first life.
func TestWriterRestarts(t *testing.T) {
	r := &receiver{t: t, accepts: remoteapi.MessageTypes{remoteapi.WriteV1MessageType}}
	dir := t.TempDir()
	samples, want := series(100)
	w := startWriter(t, dir, "http://127.0.0.1:1/", 1<<20, nil)
	w.Take(samples[:60])
	if err := <-w.trouble; err == nil {
		t.Error("nobody is there, and all is well")
	}
	w.stop()
	srv := httptest.NewServer(r)
	defer srv.Close()
	w = startWriter(t, dir, srv.URL, 1<<20, nil)
	defer w.stop()
	w.Take(samples[60:])
	w.dealt(10)
	if diff := cmp.Diff(want, r.got); diff != "" {
		t.Error(diff)
	}
}

// An outage that is longer than the queue's bound costs the oldest samples, and each of them is counted.
func TestWriterOutlastsTheQueue(t *testing.T) {
	r := &receiver{t: t, accepts: remoteapi.MessageTypes{remoteapi.WriteV1MessageType}}
	dir := t.TempDir()
	samples, want := series(600)
	w := startWriter(t, dir, "http://127.0.0.1:1/", 4000, nil)
	w.Take(samples)
	<-w.trouble
	w.stop()
	lost := w.queue.Stats().Dropped
	srv := httptest.NewServer(r)
	defer srv.Close()
	w = startWriter(t, dir, srv.URL, 4000, nil)
	defer w.stop()
	w.dealt((600 - int(lost)) / 10)
	if diff := cmp.Diff(want[lost:], r.got); diff != "" || lost == 0 || lost > 500 {
		t.Errorf("%d are counted as lost: %s", lost, diff)
	}
}

// broken is a queue that takes nothing, and has rubbish.
type broken struct{ given, done chan struct{} }

func (b broken) Append(uint32, []byte) error { return errors.New("disk full") }
func (b broken) Done()                       { close(b.done) }
func (b broken) Next(ctx context.Context) (uint32, []byte, error) {
	select {
	case <-b.given:
		return 3, []byte("rubbish"), nil
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
}

func TestWriterCountsWhatIsLost(t *testing.T) {
	q := broken{make(chan struct{}), make(chan struct{})}
	var trouble error
	cfg := DefaultWrite()
	cfg.URL = "http://127.0.0.1:1/"
	w, err := NewWriter(cfg, q, quiet, func(err error) { trouble = err })
	if err != nil {
		t.Fatal(err)
	}
	samples, _ := series(5)
	w.Take(samples)
	if w.Stats().Lost != 5 || trouble == nil || trouble.Error() != "disk full" {
		t.Errorf("%+v, trouble %v", w.Stats(), trouble)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	q.given <- struct{}{}
	<-q.done
	if w.Stats().Lost != 8 {
		t.Errorf("rubbish is not counted: %+v", w.Stats())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Every key out of bounds is named.
func TestWriteCheck(t *testing.T) {
	for want, change := range map[string]func(*WriteConfig){
		"protocol is 3":              func(c *WriteConfig) { c.Protocol = 3 },
		"max_bytes is 1":             func(c *WriteConfig) { c.MaxBytes = 1 },
		"samples_per_request is 0":   func(c *WriteConfig) { c.SamplesPerRequest = 0 },
		"timeout is 0s":              func(c *WriteConfig) { c.Timeout = 0 },
		`labels is with "a-b"`:       func(c *WriteConfig) { c.Labels = map[string]string{"a-b": "c"} },
		`labels is with "__name__"`:  func(c *WriteConfig) { c.Labels = map[string]string{"__name__": "c"} },
		`url is "ftp://victoria:21"`: func(c *WriteConfig) { c.URL = "ftp://victoria:21" },
	} {
		c := DefaultWrite()
		c.URL = "http://victoria:8428/api/v1/write"
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// Whatever was queued, or what became of it on disk: it is sent as it was, or found to be none.
func FuzzUnpack(f *testing.F) {
	e := newEncoder(nil)
	samples, _ := series(3)
	data, err := e.encode(samples)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := unpack(data)
		if err == nil {
			_, err = raw.version2()
		}
		if err != nil && !errors.Is(err, errUnreadable) {
			t.Errorf("%v", err)
		}
	})
}
