package remote

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/testenv"
)

var quiet = slog.New(slog.DiscardHandler)

// receiver accepts remote write with Prometheus' own library, and keeps each sample as text.
type receiver struct {
	mu       sync.Mutex
	statuses []int // answers to the next requests, which are not stored; 0 closes the connection
	got      []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.statuses) > 0 {
		status := r.statuses[0]
		r.statuses = r.statuses[1:]
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		return
	}
	remoteapi.NewWriteHandler(r, remoteapi.MessageTypes{remoteapi.WriteV1MessageType}).ServeHTTP(w, q)
}

// Store is called by the handler of remoteapi.
func (r *receiver) Store(q *http.Request, _ remoteapi.WriteMessageType) (*remoteapi.WriteResponse, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	resp := remoteapi.NewWriteResponse()
	builder := labels.NewScratchBuilder(0)
	var m prompb.WriteRequest
	if err := m.Unmarshal(body); err != nil {
		return nil, err
	}
	for _, s := range m.Timeseries {
		for _, x := range s.Samples {
			r.got = append(r.got, fmt.Sprintf("%s %d %g", s.ToLabels(&builder, nil), x.Timestamp, x.Value))
			resp.Samples++
		}
	}
	return resp, nil
}

// series is a TSDB with the options of the daemon.
type series struct{ *tsdb.DB }

func (s series) Newest() (int64, bool) {
	return s.Head().MaxTime(), s.Head().MinTime() <= s.Head().MaxTime()
}

func openSeries(t *testing.T, dir string) series {
	t.Helper()
	o := tsdb.DefaultOptions()
	o.OutOfOrderTimeWindow = 3 * time.Hour.Milliseconds()
	db := must(tsdb.Open(dir, quiet, nil, o, nil))
	db.DisableCompactions()
	return series{db}
}

// put appends samples from to to-1, and commits after every ten. It returns what a receiver should get, with
// cluster="eu". Series x is an hour behind the others.
func put(t *testing.T, db series, from, to int) (want []string) {
	t.Helper()
	app := db.Appender(t.Context())
	for i := from; i < to; i++ {
		at := int64(20_000_000 + 1000*i)
		if i%2 == 1 {
			at -= 3_600_000
		}
		ls := labels.FromStrings("__name__", []string{"forewarm_desired_replicas", "x"}[i%2], "pool", fmt.Sprint("p", i%9))
		if _, err := app.Append(0, ls, at, float64(i)/3); err != nil {
			t.Fatal(err)
		}
		if want = append(want, fmt.Sprintf(`{__name__=%q, cluster="eu", pool="p%d"} %d %g`, ls.Get("__name__"), i%9, at, float64(i)/3)); i%10 == 9 || i == to-1 {
			if err := app.Commit(); err != nil {
				t.Fatal(err)
			}
			app = db.Appender(t.Context())
		}
	}
	return want
}

// follow runs a writer of db until stop.
func follow(t *testing.T, db series, url string) (w *Writer, stop func()) {
	t.Helper()
	cfg := WriteConfig{Endpoint: httpclient.Endpoint{URL: url}, Labels: map[string]string{"cluster": "eu"}}
	w = must(NewWriter(cfg, db, db.Dir(), quiet, func(error) {}))
	w.pause = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return w, sync.OnceFunc(func() {
		cancel()
		<-ended
	})
}

func sorted(all []string) []string { return slices.Sorted(slices.Values(all)) }

// TestWriter: every sample arrives after a failure of the receiver, also samples in the past. Only samples that the
// receiver refuses as invalid are dropped, and counted.
func TestWriter(t *testing.T) {
	for name, c := range map[string]struct {
		statuses []int
		rejected uint64 // samples
		retries  bool
	}{
		"no failure":        {nil, 0, false},
		"busy":              {[]int{503, 429, 500, 502}, 0, true},
		"connection closed": {[]int{0, 0, 0}, 0, true},
		"wrong credentials": {[]int{401, 403, 404, 408, 302}, 0, true},
		"refused":           {[]int{400}, 23, false}, // the samples of one name
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &receiver{statuses: slices.Clone(c.statuses)}
			srv := httptest.NewUnstartedServer(r)
			srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
			srv.Start()
			defer srv.Close()
			db := openSeries(t, t.TempDir())
			defer db.Close()
			want := put(t, db, 0, 45)
			w, stop := follow(t, db, srv.URL+"/api/v1/push")
			defer stop()
			testenv.Await(t, "all samples to be sent or rejected", func() bool { return w.Sent.Load()+w.Rejected.Load() == 45 && w.Waiting() == 0 })
			stop()
			if c.rejected > 0 {
				want = slices.DeleteFunc(want, func(s string) bool { return strings.Contains(s, "desired") })
			}
			if diff := cmp.Diff(sorted(want), sorted(r.got)); diff != "" {
				t.Error(diff)
			}
			if w.Rejected.Load() != c.rejected || (w.Retries.Load() > 0) != c.retries {
				t.Errorf("%d samples are rejected, %d retries; want %d, retries %t", w.Rejected.Load(), w.Retries.Load(), c.rejected, c.retries)
			}
		})
	}
}

// TestWriterRestarts: after a restart the writer sends the remaining samples in order, and none twice. A new writer
// starts with the newest hours.
func TestWriterRestarts(t *testing.T) {
	r := &receiver{}
	srv := httptest.NewServer(r)
	defer srv.Close()
	dir := t.TempDir()
	db := openSeries(t, dir)
	put(t, db, 0, 10) // hours before the first writer: not sent
	restart := func() {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = openSeries(t, dir)
	}
	restart()
	defer func() { _ = db.Close() }()
	const began = 30_000
	want := put(t, db, began, began+50)
	w, stop := follow(t, db, srv.URL)
	testenv.Await(t, "the first to be sent", func() bool { return w.Sent.Load() == 50 && w.Waiting() == 0 })
	stop()
	want = append(want, put(t, db, began+50, began+5000)...)
	w, stop = follow(t, db, "http://127.0.0.1:1/")
	testenv.Await(t, "an attempt", func() bool { return w.Retries.Load() > 0 && w.Waiting() == 4950 })
	stop()
	restart()
	want = append(want, put(t, db, began+5000, began+5050)...)
	w, stop = follow(t, db, srv.URL)
	defer stop()
	testenv.Await(t, "the rest to be sent", func() bool { return w.Sent.Load() == 5000 && w.Waiting() == 0 })
	if diff := cmp.Diff(sorted(want), sorted(r.got)); diff != "" {
		t.Error(diff)
	}
	newest := map[string]int64{}
	for _, sample := range r.got {
		fields := strings.Fields(sample)
		name := strings.Join(fields[:len(fields)-2], " ")
		at, err := strconv.ParseInt(fields[len(fields)-2], 10, 64)
		if err != nil || at <= newest[name] {
			t.Fatalf("%s came after a sample of time %d, %v", sample, newest[name], err)
		}
		newest[name] = at
	}
}

// TestWriteCheck: the error names the key with an invalid value.
func TestWriteCheck(t *testing.T) {
	for want, change := range map[string]func(*WriteConfig){
		`labels is with "a-b"`:       func(c *WriteConfig) { c.Labels = map[string]string{"a-b": "c"} },
		`labels is with "__name__"`:  func(c *WriteConfig) { c.Labels = map[string]string{"__name__": "c"} },
		`url is "ftp://victoria:21"`: func(c *WriteConfig) { c.URL = "ftp://victoria:21" },
	} {
		c := WriteConfig{Endpoint: httpclient.Endpoint{URL: "http://victoria:8428/api/v1/write"}}
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
