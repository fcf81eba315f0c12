package remote

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/wlog"

	"github.com/forewarm/forewarm/internal/testenv"
)

var quiet = slog.New(slog.DiscardHandler)

// receiver takes remote write as the specification's own server does, and notes each sample as text.
type receiver struct {
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
	remoteapi.NewWriteHandler(r, remoteapi.MessageTypes{remoteapi.WriteV1MessageType}).ServeHTTP(w, q)
}

// Store implements what remoteapi.NewWriteHandler wants.
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

// tsdbIn opens a TSDB as the daemon does, so that there is a log to follow.
func tsdbIn(t *testing.T, dir string) *tsdb.DB {
	t.Helper()
	o := tsdb.DefaultOptions()
	o.OutOfOrderTimeWindow = 3 * time.Hour.Milliseconds()
	o.WALSegmentSize = 32 << 10
	db, err := tsdb.Open(dir, quiet, nil, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.DisableCompactions()
	return db
}

// put appends samples from..to-1, one commit for each ten, and gives what a receiver should note with cluster="eu" added. Each
// third is an hour before the others: late, in a series of its own.
func put(t *testing.T, db *tsdb.DB, from, to int) (want []string) {
	t.Helper()
	app := db.Appender(t.Context())
	for i := from; i < to; i++ {
		at := int64(7_200_000 + 1000*i)
		if i%3 == 2 {
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

// follow runs a writer over the log of dir until stop.
func follow(t *testing.T, dir, url string) (w *Writer, stop func()) {
	t.Helper()
	cfg := WriteConfig{Endpoint: Endpoint{URL: url}, Labels: map[string]string{"cluster": "eu"}}
	w, err := NewWriter(cfg, dir, quiet, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
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

// Whatever the receiver answers for a while, every sample arrives in order, late ones too, once it takes them; only what it
// refuses for what it is is left out, and counted.
func TestWriter(t *testing.T) {
	for name, c := range map[string]struct {
		statuses []int
		rejected int // requests
		retries  bool
	}{
		"well":            {nil, 0, false},
		"busy":            {[]int{503, 429, 500, 502}, 0, true},
		"away":            {[]int{0, 0, 0}, 0, true},
		"not known to it": {[]int{401, 403, 404, 408, 302}, 0, true},
		"refused":         {[]int{400, 422}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &receiver{statuses: slices.Clone(c.statuses)}
			srv := httptest.NewUnstartedServer(r)
			srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
			srv.Start()
			defer srv.Close()
			dir := t.TempDir()
			db := tsdbIn(t, dir)
			defer db.Close()
			w, stop := follow(t, dir, srv.URL+"/api/v1/push")
			defer stop()
			want := put(t, db, 0, 45)
			testenv.Await(t, "all to be dealt with", func() bool { return w.Stats().Sent+w.Stats().Rejected == 45 })
			stop()
			if diff := cmp.Diff(want[10*c.rejected:], r.got); diff != "" {
				t.Error(diff)
			}
			if s := w.Stats(); s.Rejected != uint64(10*c.rejected) || s.Lost+s.Gaps != 0 || (s.Retries > 0) != c.retries {
				t.Errorf("%+v", s)
			}
		})
	}
}

// What was not sent before a restart is sent after it, over as many segments as it takes, and what was sent is not sent again.
// What the TSDB has removed meanwhile is a gap, which is counted.
func TestWriterRestarts(t *testing.T) {
	r := &receiver{}
	srv := httptest.NewServer(r)
	defer srv.Close()
	dir := t.TempDir()
	db := tsdbIn(t, dir)
	put(t, db, 0, 10) // before there was a receiver
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = tsdbIn(t, dir)
	w, stop := follow(t, dir, srv.URL)
	want := put(t, db, 10, 50)
	testenv.Await(t, "the first to be sent", func() bool { return w.Stats().Sent == 40 })
	stop()
	w, stop = follow(t, dir, "http://127.0.0.1:1/")
	want = append(want, put(t, db, 50, 5000)...)
	testenv.Await(t, "an attempt", func() bool { return w.Stats().Retries > 0 && w.Waiting() > 0 })
	stop()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = tsdbIn(t, dir)
	defer func() { _ = db.Close() }()
	w, stop = follow(t, dir, srv.URL)
	want = append(want, put(t, db, 5000, 5050)...)
	testenv.Await(t, "the rest to be sent", func() bool { return w.Stats().Sent == 5000 && w.Waiting() == 0 })
	stop()
	if diff := cmp.Diff(want, r.got); diff != "" || w.Stats().Gaps+w.Stats().Lost != 0 {
		t.Errorf("%+v: %s", w.Stats(), diff)
	}
	first, last, err := wlog.Segments(filepath.Join(dir, "wal"))
	if err != nil || last < first+2 {
		t.Fatalf("segments %d to %d, %v: the test shows nothing", first, last, err)
	}
	if err := os.WriteFile(filepath.Join(dir, positionFile), fmt.Appendf(nil, `{"segment":%d,"records":3}`, first-1), 0o600); err != nil {
		t.Fatal(err)
	}
	w, stop = follow(t, dir, srv.URL)
	defer stop()
	testenv.Await(t, "the gap to be counted", func() bool { return w.Stats().Gaps == 1 })
}

// Every key out of bounds is named.
func TestWriteCheck(t *testing.T) {
	for want, change := range map[string]func(*WriteConfig){
		`labels is with "a-b"`:       func(c *WriteConfig) { c.Labels = map[string]string{"a-b": "c"} },
		`labels is with "__name__"`:  func(c *WriteConfig) { c.Labels = map[string]string{"__name__": "c"} },
		`url is "ftp://victoria:21"`: func(c *WriteConfig) { c.URL = "ftp://victoria:21" },
	} {
		c := WriteConfig{Endpoint: Endpoint{URL: "http://victoria:8428/api/v1/write"}}
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
