package promapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// TestLimits: a query that costs too much is refused with the text and status of Prometheus.
func TestLimits(t *testing.T) {
	h := handler(fillStore(t, t.TempDir()), 12_000, queryTimeout)
	from, to := start.Unix(), start.Unix()+11_000*60
	for name, c := range map[string]struct {
		q    question
		code int
		want string
	}{
		"points": {
			question{path: "query_range", form: form("query", "1", "start", from, "end", to, "step", 60)},
			http.StatusOK, `"success"`,
		},
		"one point too many": {
			question{path: "query_range", form: form("query", "1", "start", from, "end", to+60, "step", 60)},
			http.StatusBadRequest, "exceeded maximum resolution of 11,000 points per timeseries",
		},
		"samples": {
			question{path: "query_range", form: form("query", `{__name__=~".+"}`, "start", from, "end", from+10_000, "step", 1)},
			http.StatusUnprocessableEntity, "query processing would load too many samples into memory",
		},
		"form": {
			question{path: "query", form: form("query", strings.Repeat("1", maxFormBytes)), post: true},
			http.StatusBadRequest, "request body too large",
		},
		"matchers of everything": {
			question{path: "series", form: form("match[]", `{pool=~".*"}`)},
			http.StatusBadRequest, "must contain at least one non-empty matcher",
		},
	} {
		code, body := ask(t, h, c.q)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: status %d, want %d with %q: %.200s", name, code, c.code, c.want, body)
		}
	}
}

// blocked is a store whose queries end only when they are cancelled.
type blocked struct{ asked chan struct{} }

func (b blocked) Querier(int64, int64) (storage.Querier, error) {
	return blockedQuerier{storage.NoopQuerier(), b.asked}, nil
}

type blockedQuerier struct {
	storage.Querier
	asked chan struct{}
}

func (b blockedQuerier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	b.asked <- struct{}{}
	<-ctx.Done()
	return storage.ErrSeriesSet(ctx.Err())
}

// TestQueryTimeout: a query is cancelled if it takes too long, waits too long for a slot, or its client disconnects.
func TestQueryTimeout(t *testing.T) {
	data := blocked{asked: make(chan struct{}, maxRequests)}
	h := handler(data, maxSamples, time.Hour)
	query := func(ctx context.Context) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/query?query=x", nil))
		return w
	}
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan *httptest.ResponseRecorder, maxRequests)
	for range maxRequests {
		go func() { first <- query(ctx) }()
		<-data.asked // it has a slot now, and keeps it
	}
	if w := query(soon()); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"errorType":"timeout"`) {
		t.Errorf("a query without a slot: status %d, %s", w.Code, w.Body)
	}
	leave()
	if w := <-first; w.Code != 499 || !strings.Contains(w.Body.String(), `"errorType":"canceled"`) {
		t.Errorf("a client that disconnected: status %d, %s", w.Code, w.Body)
	}
	if w := query(soon()); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"errorType":"timeout"`) {
		t.Errorf("a slow query: status %d, %s", w.Code, w.Body)
	}
	<-data.asked // the slot was free again
}

// TestWarnings: warnings and infos of the engine are in the answer.
func TestWarnings(t *testing.T) {
	_, body := ask(t, handler(fillStore(t, t.TempDir()), maxSamples, queryTimeout), question{path: "query", form: form("query", "rate(forewarm_forecast[5m])", "time", start.Unix()+3600)})
	if x := decode(t, body); x["infos"] == nil {
		t.Errorf("no infos in %s", body)
	}
}

// TestRoutes: routes of Prometheus that write, administer or show its state do not exist, and no page of another web
// site may read an answer.
func TestRoutes(t *testing.T) {
	h := handler(fillStore(t, t.TempDir()), maxSamples, queryTimeout)
	for _, route := range []string{
		"POST write", "POST read", "POST otlp/v1/metrics", "POST admin/tsdb/delete_series", "PUT admin/tsdb/snapshot", "POST admin/tsdb/clean_tombstones",
		"GET targets", "GET alertmanagers", "GET scrape_pools", "GET status/tsdb", "GET status/config", "GET status/flags", "GET status/runtimeinfo",
		"GET notifications/live", "GET search/metric_names", "GET features", "GET openapi.yaml", "OPTIONS other",
	} {
		method, path, _ := strings.Cut(route, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/api/v1/"+path, nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", route, w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/query?query=1", nil)
	r.Header.Set("Origin", "https://example.com")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if allowed, ok := w.Header()["Access-Control-Allow-Origin"]; ok || w.Code != http.StatusOK {
		t.Errorf("status %d, allowed origins %q, want none", w.Code, allowed)
	}
}

func TestMetadata(t *testing.T) {
	h := handler(fillStore(t, t.TempDir()), maxSamples, queryTimeout)
	for q, want := range map[string]string{
		"":                  `{"status":"success","data":{"forewarm_forecast":[{"type":"gauge","unit":"","help":"Demand forecast."}],"odd_values":[{"type":"gauge","unit":"","help":"Odd."}]}}`,
		"metric=odd_values": `{"status":"success","data":{"odd_values":[{"type":"gauge","unit":"","help":"Odd."}]}}`,
		"metric=x":          `{"status":"success","data":{}}`,
	} {
		v := must(url.ParseQuery(q))
		if _, body := ask(t, h, question{path: "metadata", form: v}); strings.TrimSpace(body) != want {
			t.Errorf("metadata?%s: %s", q, body)
		}
	}
}

// TestPrometheusVersion: the version that the API reports is that of the module in go.mod.
func TestPrometheusVersion(t *testing.T) {
	mod := must(os.ReadFile("../../go.mod"))
	var major, minor, patch int
	if _, err := fmt.Sscanf(prometheusVersion, "%d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\tgithub.com/prometheus/prometheus v0.%d%02d.%d\n", major, minor, patch); !strings.Contains(string(mod), want) {
		t.Errorf("go.mod does not have%q", want)
	}
}

// FuzzAPI: the answer to any request is JSON with a matching status, or has no body.
func FuzzAPI(f *testing.F) {
	for _, q := range questions() {
		f.Add(q.path, q.form.Encode())
	}
	mux := http.NewServeMux()
	register(mux.Handle, nothing{}, nil, "", quiet, 10_000, 100*time.Millisecond)
	f.Fuzz(func(t *testing.T, path, form string) {
		u := "/api/v1/" + path + "?" + form
		if _, err := url.ParseRequestURI(u); err != nil || strings.ContainsAny(u, " \n\r\t") {
			t.Skip()
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, u, nil))
		if w.Header().Get("Content-Type") != "application/json" {
			return // no path of this API, or no body
		}
		x := decode(t, w.Body.String())
		if ok := w.Code == http.StatusOK; ok != (x["status"] == "success") {
			t.Errorf("status %d with %s", w.Code, w.Body)
		}
	})
}

// nothing is a store without series.
type nothing struct{}

func (nothing) Querier(int64, int64) (storage.Querier, error) { return storage.NoopQuerier(), nil }

func ExampleRegister() {
	mux := http.NewServeMux()
	Register(mux.Handle, nothing{}, nil, "v1", quiet)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query?query=1%2B1&time=60", nil))
	fmt.Println(w.Body)
	// Output: {"status":"success","data":{"resultType":"scalar","result":[60,"2"]}}
}
