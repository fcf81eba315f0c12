package remote

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/testenv"
)

func TestQuestions(t *testing.T) {
	s := Source{Pool: "p", Match: `model_name="llama"`, Queries: Queries{Requests: `sum(rate(gateway_requests_total{$match,code="200"}[5m]))`}}
	got := map[string]string{}
	for _, q := range s.Questions(100_000) {
		got[q.Name] = q.Query + q.Note
	}
	want := map[string]string{
		"requests": `sum(rate(gateway_requests_total{model_name="llama",code="200"}[5m]))`,
		"prefill": `clamp_min(sum(rate(vllm:prompt_tokens_total{model_name="llama"}[2m])) - ` +
			`(sum(rate(vllm:prompt_tokens_cached_total{model_name="llama"}[2m])) or vector(0)), 0)`,
		"decode": `sum(rate(vllm:generation_tokens_total{model_name="llama"}[2m]))`,
		"kv":     `sum(vllm:kv_cache_usage_perc{model_name="llama"}) * 100000`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if q := s.Questions(0)[3]; q.Query != "" || !strings.Contains(q.Note, "KV capacity") {
		t.Errorf("without a known KV capacity: %+v", q)
	}
}

// TestPresets: all queries exist, except replicas and KV of gateways. They are valid PromQL with and without matchers.
func TestPresets(t *testing.T) {
	parse := parser.NewParser(parser.Options{})
	for _, name := range Presets() {
		for _, match := range []string{"", `model_name="llama"`} {
			s := Source{Pool: "p", Preset: name, Match: match}
			for _, q := range append(s.Questions(1000), s.Replicas(), s.question("kv_capacity", "", s.defaults().KVCapacity, 0)) {
				if q.Query == "" {
					if s.defaults().Replicas != "" {
						t.Errorf("%s has no query of %s", name, q.Name)
					}
				} else if _, err := parse.ParseExpr(q.Query); err != nil || strings.Contains(q.Query, "$") {
					t.Errorf("%s, %s: %s: %v", name, q.Name, q.Query, err)
				}
			}
		}
	}
}

// TestKVCapacity: the capacity of a KV cache is the largest of all series. A series has it in its labels or its value.
func TestKVCapacity(t *testing.T) {
	for result, want := range map[string]float64{
		``: 0,
		`{"metric":{"block_size":"16","num_gpu_blocks":"1000"},"value":[1,"1"]}`:                           16_000,
		`{"metric":{"block_size":"16","num_gpu_blocks":"None"},"value":[1,"1"]}`:                           0,
		`{"metric":{"block_size":"16","num_gpu_blocks":"9","kv_cache_size_tokens":"200"},"value":[1,"1"]}`: 200,
		`{"metric":{"instance":"a"},"value":[1,"NaN"]},{"metric":{"instance":"b"},"value":[1,"60000"]}`:    60_000,
		`{"metric":{"instance":"a"},"value":[1,"+Inf"]}`:                                                   0,
		`{"metric":{"instance":"a"},"value":[1,"50000"]},{"metric":{"instance":"b"},"value":[1,"60000"]}`:  60_000,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[` + result + `]}}`))
		}))
		c := DefaultBackfill()
		c.URL = srv.URL
		p := must(NewPast(c))
		if got, err := p.KVCapacity(t.Context(), &Source{Pool: "p"}, time.Unix(1, 0)); got != want || err != nil {
			t.Errorf("%s: %g, %v; want %g", result, got, err, want)
		}
		srv.Close()
	}
}

// matrix is an answer with one series.
func matrix(samples string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[` + samples + `]}]}}`
}

func TestMinutes(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	sample := func(minute int, v string) string {
		return fmt.Sprintf(`[%d,%q]`, start.Unix()+60*int64(minute), v)
	}
	password := testenv.WriteFile(t, filepath.Join(t.TempDir(), "password"), "secret")
	nan := math.NaN()
	for name, c := range map[string]struct {
		answers []string // the last one is repeated; a number is an HTTP status
		want    []float64
		err     string
		asked   int // number of requests
	}{
		"a sample ends its minute":  {[]string{matrix(sample(1, "1") + "," + sample(3, "2.5"))}, []float64{1, nan, 2.5}, "", 1},
		"values that are no demand": {[]string{matrix(sample(1, "-1") + "," + sample(2, "+Inf") + "," + sample(3, "NaN"))}, []float64{nan, nan, nan}, "", 1},
		"other minutes than asked":  {[]string{matrix(sample(0, "1") + "," + sample(4, "1"))}, []float64{nan, nan, nan}, "", 1},
		"no series":                 {[]string{`{"status":"success","data":{"resultType":"matrix","result":[]}}`}, []float64{nan, nan, nan}, "", 1},
		"busy at first":             {[]string{"503", "502", matrix(sample(2, "7"))}, []float64{nan, 7, nan}, "", 3},
		"too many requests":         {[]string{"429", matrix(sample(2, "7"))}, []float64{nan, 7, nan}, "", 2},
		"always unavailable":        {[]string{"503"}, nil, "server error: 503", 4},
		"a bad query":               {[]string{`{"status":"error","errorType":"bad_data","error":"1:1: parse error"}`}, nil, "1:1: parse error", 1},
		"not allowed":               {[]string{"401"}, nil, "401", 1},
		"not a Prometheus":          {[]string{"<html>"}, nil, "readObjectStart", 1},
		"a too large answer":        {[]string{strings.Repeat(" ", maxAnswer+1)}, nil, "more than 16777216 bytes", 1},
	} {
		asked := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a := c.answers[min(asked, len(c.answers)-1)]
			asked++
			user, pass, _ := r.BasicAuth()
			if user != "me" || pass != "secret" || r.Header.Get("X-Scope-OrgID") != "llm" {
				t.Errorf("%s: asked as %q %q with %v", name, user, pass, r.Header)
			}
			if r.ParseForm() != nil || r.Form.Get("step") != "60" || r.Form.Get("start") != "1800000060" || r.Form.Get("end") != "1800000180" {
				t.Errorf("%s: asked %v", name, r.Form)
			}
			w.Header().Set("Content-Type", "application/json")
			if status := 0; len(a) == 3 {
				if _, err := fmt.Sscan(a, &status); err != nil {
					t.Error(err)
				}
				w.WriteHeader(status)
				return
			}
			if strings.Contains(a, `"error"`) {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = w.Write([]byte(a))
		}))
		cfg := DefaultBackfill()
		cfg.URL, cfg.Config = srv.URL, httpclient.Config{Username: "me", PasswordFile: password, Headers: map[string]string{"X-Scope-OrgID": "llm"}}
		p := must(NewPast(cfg))
		p.pause = time.Millisecond
		got, err := p.minutes(t.Context(), "sum(x)", start, 3, nil)
		srv.Close()
		if diff := cmp.Diff(c.want, got, cmpopts.EquateNaNs()); diff != "" || asked != c.asked {
			t.Errorf("%s: asked %d times, want %d: %s", name, asked, c.asked, diff)
		}
		if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), `query "sum(x)" of `+srv.URL)) {
			t.Errorf("%s: error %v, want %q", name, err, c.err)
		}
	}
}

// TestRedirect: headers go only to the configured host.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("another host gets %v", r.Header) }))
	defer other.Close()
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	c := DefaultBackfill()
	c.URL, c.Headers = srv.URL, map[string]string{"X-Scope-OrgID": "llm"}
	p := must(NewPast(c))
	p.pause = time.Millisecond
	if _, err := p.minutes(t.Context(), "sum(x)", time.Unix(0, 0), 3, nil); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("error %v, want one that names the status", err)
	}
}

// TestBackfillCheck: the error names the key with an invalid value.
func TestBackfillCheck(t *testing.T) {
	valid := func() BackfillConfig {
		c := DefaultBackfill()
		c.URL = "https://prometheus:9090/"
		c.Sources = []Source{{Pool: "p"}, {Pool: "q"}}
		return c
	}
	c := valid()
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*BackfillConfig){
		"days is 0":                          func(c *BackfillConfig) { c.Days = 0 },
		"days is 29":                         func(c *BackfillConfig) { c.Days = 29 },
		`sources[1].preset is "x"`:           func(c *BackfillConfig) { c.Sources[1].Preset = "x" },
		"url is empty":                       func(c *BackfillConfig) { c.URL = "" },
		`url is "prometheus:9090"`:           func(c *BackfillConfig) { c.URL = "prometheus:9090" },
		"url contains credentials":           func(c *BackfillConfig) { c.URL = "http://me:secret@prometheus" },
		`username is "me"`:                   func(c *BackfillConfig) { c.Username = "me" },
		"bearer_token_file is set":           func(c *BackfillConfig) { c.Username, c.PasswordFile, c.BearerTokenFile = "me", "f", "g" },
		"tls is set":                         func(c *BackfillConfig) { c.URL, c.TLS.CAFile = "http://prometheus", "ca.pem" },
		"tls.cert_file is \"c.pem\"":         func(c *BackfillConfig) { c.TLS.CertFile = "c.pem" },
		`headers: "a b" is not a valid`:      func(c *BackfillConfig) { c.Headers = map[string]string{"a b": "c"} },
		`headers: setting header "Author`:    func(c *BackfillConfig) { c.Headers = map[string]string{"authorization": "c"} },
		"sources[1].pool is empty":           func(c *BackfillConfig) { c.Sources[1].Pool = "" },
		`sources[1].pool is "p": it must be`: func(c *BackfillConfig) { c.Sources[1].Pool = "p" },
	} {
		c := valid()
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
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
