package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/forewarm/forewarm/internal/testenv"
)

// dashboard is the part of a Grafana dashboard that this test reads. deploy/test/schemas validates all of it.
type dashboard struct {
	UID        string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		Type, Title, Description string
		FieldConfig              struct {
			Defaults struct{ Unit string }
		}
		Targets []struct {
			Expr    string
			Instant bool
		}
	}
}

func readDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %d dashboards", err, len(files))
	}
	all := map[string]dashboard{}
	for _, file := range files {
		text := must(os.ReadFile(file))
		d := parse[dashboard](t, text)
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = d
	}
	return all
}

// mayBeEmpty matches queries that have no result before something fails or changes, or on the event clock.
var mayBeEmpty = regexp.MustCompile(`forewarm_(traffic_peak_to_mean_ratio|driver_change|producer_fault|ingest_refused_total|forecast_coverage_ratio|producer_clock_skew_seconds)`)

// TestScenarioDashboards records the metrics of a daemon over four hours of traffic, and sends each query of the
// dashboards to a real Prometheus with them. In the last hour the traffic grows until the pool is saturated.
func TestScenarioDashboards(t *testing.T) {
	t.Parallel()
	testenv.Program(t, "prometheus", "prometheus") // skips the test before the long recording
	dir := t.TempDir()
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	const minutes, every = 4 * 60, 3
	known := recordHours(t, dir, start, minutes, every)
	end := start.Add(minutes * time.Minute)
	prometheus := testenv.StartPrometheus(t, nil, dir, "")

	for name, d := range readDashboards(t) {
		if d.UID != "forewarm-"+name {
			t.Errorf("%s: uid %q", name, d.UID)
		}
		variables := map[string]bool{}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
			if v.Type == "query" && v.Definition != "label_values(forewarm_replicas, pool)" {
				t.Errorf("%s: variable %s is from %s", name, v.Name, v.Definition)
			}
		}
		if !variables["datasource"] || variables["pool"] == (name == "fleet") {
			t.Errorf("%s: variables %v", name, variables)
		}
		for _, p := range d.Panels {
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || !strings.HasSuffix(p.Description, ".") || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q needs a title, a description in sentences, a unit and a query", name, p.Title)
			}
			for _, target := range p.Targets {
				query := strings.ReplaceAll(target.Expr, "$pool", "chat")
				checkMetrics(t, name+": "+p.Title, query, known)
				path, values := "/api/v1/query_range", url.Values{"query": {query}, "start": {start.Format(time.RFC3339)}, "end": {end.Format(time.RFC3339)}, "step": {"300"}}
				if target.Instant {
					path, values = "/api/v1/query", url.Values{"query": {query}, "time": {end.Format(time.RFC3339)}}
				}
				code, body := testenv.Get(prometheus.URL + path + "?" + values.Encode())
				var answer struct {
					Error string
					Data  struct{ Result []any }
				}
				if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 {
					t.Errorf("%s: %s: %s: %d %s (%v)", name, p.Title, query, code, answer.Error, err)
				} else if len(answer.Data.Result) == 0 && !mayBeEmpty.MatchString(query) {
					t.Errorf("%s: %s: %s is empty", name, p.Title, query)
				}
			}
		}
	}
}

// recordHours runs a daemon, and writes its metrics every few minutes of event time to a Prometheus database in dir. It
// returns the labels of each metric.
func recordHours(t *testing.T, dir string, start time.Time, minutes, every int) map[string]map[string]bool {
	t.Helper()
	p := startDaemon(t, "clock: event", "features: {lateness: 0s}",
		"pools: [{name: chat, kv_capacity_tokens: 20000, decode_tokens_per_s: 400, slo: {ttft: 2s, itl: 50ms}, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 9}, reserves: {failure: 1}}]")
	options := tsdb.DefaultOptions()
	options.RetentionDuration = math.MaxInt64
	db := must(tsdb.Open(dir, promslog.NewNopLogger(), nil, options, nil))
	known := map[string]map[string]bool{}
	publish := func(subject, format string, args ...any) {
		p.publish(t, subject, fmt.Appendf(nil, format, args...), "Forewarm-Source", "gateway")
	}
	for minute := range minutes {
		at := start.Add(time.Duration(minute) * time.Minute)
		requests := 8 + int(4*math.Sin(2*math.Pi*float64(minute)/1440)) + max(0, minute-minutes+60)*3
		for i := range requests {
			arrived := at.Add(time.Duration(i) * time.Minute / time.Duration(requests)).UnixMilli()
			publish("forewarm.telemetry.request.chat."+[]string{"talk", "code"}[i%2],
				`{"id":"%d-%d","arrived_at":%d,"first_token_at":%d,"finished_at":%d,"prompt_tokens":%d,"cached_tokens":50,"output_tokens":400,"tenant":"acme","attempt":%d}`,
				minute, i, arrived, arrived+500, arrived+20_000, 400+i%5*100, 1+i%7/6)
		}
		for replica := range 2 {
			publish(fmt.Sprintf("forewarm.telemetry.replica.chat.chat-%d", replica), `{"at":%d,"state":"ready","waiting":0,"running":3,"kv_used_ratio":0.3}`, at.Add(59*time.Second).UnixMilli())
		}
		if (minute+1)%every == 0 {
			p.settle(t)
			_, text := testenv.Get(p.base + "/metrics")
			appendMetrics(t, db, text, at.Add(time.Minute), known)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return known
}

// appendMetrics writes an exposition to db, as if it was scraped at that time.
func appendMetrics(t *testing.T, db *tsdb.DB, text string, at time.Time, known map[string]map[string]bool) {
	t.Helper()
	p := must(textparse.New([]byte(text), "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{FallbackContentType: "text/plain"}))
	app := db.AppenderV2(t.Context())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		} else if entry != textparse.EntrySeries {
			continue
		}
		var set labels.Labels
		p.Labels(&set)
		name := set.Get(model.MetricNameLabel)
		if known[name] == nil {
			known[name] = map[string]bool{"instance": true, "job": true}
		}
		set.Range(func(l labels.Label) { known[name][l.Name] = true })
		b := labels.NewBuilder(set)
		b.Set("instance", "127.0.0.1:9464")
		b.Set("job", "forewarm")
		_, _, value := p.Series()
		if _, err := app.Append(0, b.Labels(), 0, at.UnixMilli(), value, nil, nil, promstorage.AppendV2Options{}); err != nil {
			t.Fatalf("%s: %v", set, err)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}

// checkMetrics checks that the metrics and labels of a query were exposed. A metric that may be empty must be named in
// the source code.
func checkMetrics(t *testing.T, place, query string, known map[string]map[string]bool) {
	t.Helper()
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %s: %v", place, query, err)
		return
	}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if known[v.Name] == nil {
			source := must(os.ReadFile("../../server/gauges.go"))
			if !mayBeEmpty.MatchString(v.Name) || !bytes.Contains(source, []byte(strconv.Quote(v.Name))) {
				t.Errorf("%s: there is no metric %s", place, v.Name)
			}
			return nil
		}
		for _, m := range v.LabelMatchers {
			if !known[v.Name][m.Name] {
				t.Errorf("%s: %s has no label %s", place, v.Name, m.Name)
			}
		}
		return nil
	})
}
