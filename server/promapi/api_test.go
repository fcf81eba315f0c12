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

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// What costs too much is refused in Prometheus' words and with its status.
func TestLimits(t *testing.T) {
	db := fillStore(t, t.TempDir())
	cfg := DefaultConfig()
	cfg.MaxSamples = 12_000
	h := newAPI(t, cfg, db)
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

// blocked is a store whose series are never found.
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

// A query that takes too long, or waits too long for its turn, is given up; so is one whose client went away.
func TestTimeAndTurns(t *testing.T) {
	cfg := DefaultConfig()
	data := blocked{asked: make(chan struct{}, maxQueries)}
	h := newAPI(t, cfg, data)
	query := func(ctx context.Context, timeout time.Duration) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		f := form("query", "x", "timeout", timeout.Seconds())
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/query?"+f.Encode(), nil))
		return w
	}
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan *httptest.ResponseRecorder, maxQueries)
	for range maxQueries {
		go func() { first <- query(ctx, time.Hour) }()
		<-data.asked // it has its turn now, and keeps it
	}
	if w := query(t.Context(), 10*time.Millisecond); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"errorType":"timeout"`) {
		t.Errorf("a query without a turn: status %d, %s", w.Code, w.Body)
	}
	leave()
	if w := <-first; w.Code != statusClientClosed || !strings.Contains(w.Body.String(), `"errorType":"canceled"`) {
		t.Errorf("a client that went away: status %d, %s", w.Code, w.Body)
	}
	if w := query(t.Context(), 10*time.Millisecond); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"errorType":"timeout"`) {
		t.Errorf("a slow query: status %d, %s", w.Code, w.Body)
	}
	<-data.asked // the turn was free again
}

// What is cut to a limit says so.
func TestTruncation(t *testing.T) {
	h := newAPI(t, DefaultConfig(), fillStore(t, t.TempDir()))
	at := start.Unix() + 3600
	for _, q := range []question{
		{path: "query", form: form("query", "forewarm_forecast", "time", at, "limit", 2)},
		{path: "query_range", form: form("query", "forewarm_forecast", "start", at, "end", at+60, "step", 60, "limit", 2)},
		{path: "series", form: form("match[]", "forewarm_forecast", "limit", 2)},
		{path: "labels", form: form("limit", 2)},
		{path: "label/class/values", form: form("limit", 2)},
	} {
		code, body := ask(t, h, q)
		x := decode(t, body)
		data, ok := x["data"].([]any)
		if !ok {
			data, _ = x["data"].(map[string]any)["result"].([]any)
		}
		if diff := cmp.Diff([]any{errTruncated.Error()}, x["warnings"]); diff != "" || code != http.StatusOK || len(data) != 2 {
			t.Errorf("%s: status %d with %d results: %s", q.path, code, len(data), diff)
		}
	}
	_, body := ask(t, h, question{path: "query", form: form("query", "rate(forewarm_forecast[5m])", "time", at)})
	if x := decode(t, body); x["infos"] == nil {
		t.Errorf("the engine's remarks are missing: %s", body)
	}
}

// An answer of many pieces is sent as it is encoded, and is whole.
func TestLargeAnswer(t *testing.T) {
	h := newAPI(t, DefaultConfig(), fillStore(t, t.TempDir()))
	f := form("query", `{__name__=~".+"}`, "start", start.Unix(), "end", start.Unix()+10_000, "step", 1)
	code, body := ask(t, h, question{path: "query_range", form: f})
	points := 0
	for _, s := range decode(t, body)["data"].(map[string]any)["result"].([]any) {
		points += len(s.(map[string]any)["values"].([]any))
	}
	if code != http.StatusOK || len(body) < 10*flushBytes || points < 150_000 {
		t.Errorf("status %d, %d bytes, %d points", code, len(body), points)
	}
}

func TestMetadataAndBuildInfo(t *testing.T) {
	h := newAPI(t, DefaultConfig(), fillStore(t, t.TempDir()))
	for q, want := range map[string]string{
		"":                  `{"status":"success","data":{"forewarm_forecast":[{"type":"gauge","help":"Demand forecast.","unit":""}],"odd_values":[{"type":"gauge","help":"Odd.","unit":""}]}}`,
		"limit=1":           `{"status":"success","data":{"forewarm_forecast":[{"type":"gauge","help":"Demand forecast.","unit":""}]}}`,
		"metric=odd_values": `{"status":"success","data":{"odd_values":[{"type":"gauge","help":"Odd.","unit":""}]}}`,
		"metric=x&limit=3":  `{"status":"success","data":{}}`,
	} {
		v, err := url.ParseQuery(q)
		if err != nil {
			t.Fatal(err)
		}
		if _, body := ask(t, h, question{path: "metadata", form: v}); body != want {
			t.Errorf("metadata?%s: %s", q, body)
		}
	}
}

// The version that is told is that of the module in go.mod.
func TestPrometheusVersion(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var major, minor, patch int
	if _, err := fmt.Sscanf(prometheusVersion, "%d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\tgithub.com/prometheus/prometheus v0.%d%02d.%d\n", major, minor, patch); !strings.Contains(string(mod), want) {
		t.Errorf("go.mod does not have%q", want)
	}
}

// Every key out of bounds is named.
func TestConfigCheck(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"timeout":     func(c *Config) { c.Timeout = time.Minute },
		"max_samples": func(c *Config) { c.MaxSamples = 1 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever is asked gets an answer in JSON, or none, with a status that fits it.
func FuzzAPI(f *testing.F) {
	for _, q := range questions() {
		f.Add(q.path, q.form.Encode())
	}
	mux := http.NewServeMux()
	cfg := DefaultConfig()
	cfg.Timeout, cfg.MaxSamples = 100*time.Millisecond, 10_000
	New(cfg, nothing{}, nil, "", quiet).Register(mux.Handle)
	f.Fuzz(func(t *testing.T, path, form string) {
		u := "/api/v1/" + path + "?" + form
		if _, err := url.ParseRequestURI(u); err != nil || strings.ContainsAny(u, " \n\r\t") {
			t.Skip()
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, u, nil))
		if w.Header().Get("Content-Type") != "application/json" {
			return // no path of this API, or nothing to say
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

func ExampleAPI() {
	mux := http.NewServeMux()
	New(DefaultConfig(), nothing{}, nil, "v1", quiet).Register(mux.Handle)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query?query=1%2B1&time=60", nil))
	fmt.Println(w.Body)
	// Output: {"status":"success","data":{"resultType":"scalar","result":[60,"2"]}}
}
