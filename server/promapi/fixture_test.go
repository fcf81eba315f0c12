package promapi

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

var quiet = slog.New(slog.DiscardHandler)

// start is the time of the first sample: a full hour, and recent, so that a Prometheus keeps the samples.
var start = time.Now().Add(-6 * time.Hour).Truncate(time.Hour).UTC()

const minutes = 180

// fillStore fills a TSDB with series as Forewarm stores them. One has a gap, one has NaN and infinities, one has
// characters that JSON escapes, and one is a counter that is reset.
func fillStore(t *testing.T, dir string) *tsdb.DB {
	t.Helper()
	db := must(tsdb.Open(dir, quiet, nil, tsdb.DefaultOptions(), nil))
	t.Cleanup(func() { _ = db.Close() })
	app := db.Appender(t.Context())
	put := func(at time.Time, v float64, pairs ...string) {
		if _, err := app.Append(0, labels.FromStrings(pairs...), at.UnixMilli(), v); err != nil {
			t.Fatal(err)
		}
	}
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e-9, 1e22, 0.1 + 0.2, 1 << 53}
	for m := range minutes {
		at := start.Add(time.Duration(m) * time.Minute)
		for i, class := range []string{"*", "agent", "chat"} {
			if class == "agent" && m >= 60 && m < 75 {
				continue
			}
			rate := float64(i+1) * (10 + 5*math.Sin(float64(m)/20))
			put(at, rate, "__name__", "forewarm_demand_requests_per_second", "pool", "gpu", "class", class)
			for q, level := range []string{"0.5", "0.9"} {
				put(at, rate*(1+.2*float64(q)), "__name__", "forewarm_forecast", "pool", "gpu", "class", class,
					"dimension", "requests", "horizon", "15", "quantile", level)
			}
		}
		put(at, odd[m%len(odd)], "__name__", "odd_values", "pool", "a\"b\\c<&>\nü")
		put(at, float64(m%50*7), "__name__", "resets_total", "pool", "gpu")
		put(at.Add(123*time.Millisecond), float64(m), "__name__", "fraction", "pool", "gpu")
		for i, le := range []string{"0.1", "1", "10", "+Inf"} {
			put(at, float64(m*(i+1)), "__name__", "latency_bucket", "le", le)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	return db
}

func handler(data storage.Queryable, samples int, timeout time.Duration) http.Handler {
	mux := http.NewServeMux()
	register(mux.Handle, data, map[string]string{"forewarm_forecast": "Demand forecast.", "odd_values": "Odd."}, "v1.2.3", quiet, samples, timeout)
	return mux
}

// question is a request to the API: a path and its parameters.
type question struct {
	path  string
	form  url.Values
	since int // oldest major version of Prometheus with the same answer; 0 for any
	post  bool
}

// ask sends a question to a handler.
func ask(t *testing.T, h http.Handler, q question) (int, string) {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	return askServer(t, srv.URL, q)
}

func askServer(t *testing.T, base string, q question) (int, string) {
	t.Helper()
	method, target, body := http.MethodGet, base+"/api/v1/"+q.path+"?"+q.form.Encode(), ""
	if q.post {
		method, target, body = http.MethodPost, base+"/api/v1/"+q.path, q.form.Encode()
	}
	r := must(http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))
	if q.post {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp := must(http.DefaultClient.Do(r))
	defer resp.Body.Close()
	b := must(io.ReadAll(resp.Body))
	return resp.StatusCode, string(b)
}

// form makes parameters of pairs of name and value.
func form(pairs ...any) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i].(string), fmt.Sprint(pairs[i+1]))
	}
	return v
}

// decode parses an answer.
func decode(t *testing.T, body string) map[string]any {
	t.Helper()
	var x map[string]any
	if err := json.Unmarshal([]byte(body), &x); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return x
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
