package promapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestAnswersAsPrometheus sends the same requests to this API and to a real Prometheus with a copy of the samples. Each
// status, number and error text must be the same. Warnings and infos are not compared: each release of the engine has
// its own texts. A Prometheus before version 3 may differ in the last digit of a number, and in the text of an error.
func TestAnswersAsPrometheus(t *testing.T) {
	testenv.Program(t, "prometheus", "prometheus")
	dir := t.TempDir()
	db := fillStore(t, filepath.Join(dir, "ours"))
	if err := os.CopyFS(filepath.Join(dir, "theirs"), os.DirFS(filepath.Join(dir, "ours"))); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(dir, "theirs", "lock"))
	theirs := testenv.StartPrometheus(t, []string{"global: {}"}, filepath.Join(dir, "theirs"), "").URL
	version := 0 // major
	_, body := askServer(t, theirs, question{path: "status/buildinfo"})
	if _, err := fmt.Sscanf(decode(t, body)["data"].(map[string]any)["version"].(string), "%d.", &version); err != nil {
		t.Fatal(err)
	}
	h := handler(db, maxSamples, queryTimeout)

	asked := 0
	for _, q := range questions() {
		if q.since > version {
			continue
		}
		asked++
		ourCode, ours := ask(t, h, q)
		theirCode, their := askServer(t, theirs, q)
		if diff := gocmp.Diff(normal(t, version, their), normal(t, version, ours)); diff != "" || ourCode != theirCode {
			t.Errorf("%s?%s: status %d, Prometheus %d (-Prometheus +ours):\n%s", q.path, q.form.Encode(), ourCode, theirCode, diff)
		}
	}
	t.Logf("%d questions to Prometheus %d", asked, version)
}

// questions are the requests to both. Their times are between samples, because Prometheus 3 excludes a sample at the
// start of a range, and earlier versions include it.
func questions() (qs []question) {
	at := func(m float64) string {
		return fmt.Sprintf("%.3f", float64(start.Unix())+60*m+7)
	}
	instant := []string{
		`1+1`, `"text"`, `vector(1/0)`, `-2^2`, `time()`,
		`forewarm_demand_requests_per_second`,
		`forewarm_demand_requests_per_second{class=~"a.*|ch.*"}`,
		`forewarm_demand_requests_per_second{class="agent"}[3m]`,
		`sum by (pool) (forewarm_demand_requests_per_second{class!="*"})`,
		`topk(2, forewarm_demand_requests_per_second)`,
		`forewarm_demand_requests_per_second - on (pool, class) forewarm_forecast{quantile="0.5"} offset 15m`,
		`avg_over_time(forewarm_demand_requests_per_second[30m])`,
		`quantile_over_time(0.9, forewarm_demand_requests_per_second[30m])`,
		`max_over_time(sum(forewarm_demand_requests_per_second)[1h:5m])`,
		`rate(resets_total[20m])`, `increase(resets_total[1h])`, `resets(resets_total[2h])`,
		`histogram_quantile(0.9, rate(latency_bucket[10m]))`,
		`odd_values[9m]`, `fraction[3m]`, `label_replace(odd_values, "x", "$1", "pool", "(.)(.|\n)*")`,
		`absent(nothing{pool="gpu"})`, `nothing`, `predict_linear(fraction[30m], 3600)`,
		`forewarm_forecast{quantile="0.9"} > 30 unless on (class) forewarm_demand_requests_per_second{class="chat"}`,
		`count_values("v", round(forewarm_demand_requests_per_second))`,
		`forewarm_demand_requests_per_second @ ` + fmt.Sprint(start.Unix()+3600),
		`sort_desc(forewarm_demand_requests_per_second)`, `clamp(odd_values, 0, 5)`, `timestamp(fraction)`,
		// errors
		``, `sum(`, `{pool=~""}`, `forewarm_forecast{quantile=~"("}`, `rate(resets_total)`, `unknown_function(1)`,
		`forewarm_forecast * on (pool) forewarm_demand_requests_per_second`,
		`label_replace(fraction, "bad-label", "$1", "pool", "(")`,
	}
	for i, text := range instant {
		qs = append(qs, question{path: "query", form: form("query", text, "time", at(150)), post: i%2 == 1})
	}
	for i, text := range []string{
		`forewarm_demand_requests_per_second`, `sum(rate(resets_total[5m]))`, `odd_values`, `scalar(fraction)`, `1`, `nothing`,
		`forewarm_demand_requests_per_second[5m]`, `"text"`, `sum(`,
	} {
		qs = append(qs, question{path: "query_range", form: form("query", text, "start", at(40), "end", at(100), "step", "90s"), post: i%2 == 1})
	}
	for _, f := range []url.Values{
		form("query", "1", "start", at(1), "end", at(0), "step", "1"),
		form("query", "1", "start", at(0), "end", at(1), "step", "0"),
		form("query", "1", "start", at(0), "end", at(1), "step", "-1"),
		form("query", "1", "start", at(0), "end", at(1), "step", "1e30"),
		form("query", "1", "start", at(0), "end", at(1)),
		form("query", "1", "start", at(0), "step", "1"),
		form("query", "1", "start", at(0), "end", at(1000), "step", "1"),
	} {
		qs = append(qs, question{path: "query_range", form: f})
	}
	selectors := form("match[]", `forewarm_demand_requests_per_second{class="chat"}`, "match[]", `{__name__="fraction"}`)
	return append(qs, []question{
		{path: "query", form: form("query", "1", "time", "yesterday")},
		{path: "query", form: form("query", "1", "time", start.Add(time.Hour).Format(time.RFC3339))},
		{path: "series", form: selectors},
		{path: "series", form: selectors, post: true},
		{path: "series", form: form("match[]", "fraction", "start", at(0), "end", at(10))},
		{path: "series", form: form("match[]", "fraction", "start", at(9000))},
		{path: "series"},
		{path: "series", form: form("match[]", "{")},
		{path: "series", form: form("match[]", `{class=""}`)},
		{path: "labels"},
		{path: "labels", form: selectors},
		{path: "labels", form: selectors, post: true},
		{path: "labels", form: form("match[]", "{")},
		{path: "labels", form: form("start", "x")},
		{path: "label/__name__/values"},
		{path: "label/class/values", form: selectors},
		{path: "label/class/values", form: form("match[]", `{class=""}`)},
		{path: "label/nothing/values"},
		{path: "label/bad-name/values", since: 3},
		{path: "label/U__bad_2d_name/values", since: 3},
		{path: "metadata", form: form("metric", "nothing")},
		{path: "rules"},
	}...)
}

// number is a value of a sample, with or without an exponent.
var number = regexp.MustCompile(`"-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?"\]`)

// normal is an answer with sorted series, without the parts that differ between versions of Prometheus. It is nil for
// an answer without a body.
func normal(t *testing.T, version int, body string) any {
	t.Helper()
	if body == "" {
		return nil
	}
	digits := 17
	if version < 3 {
		digits = 13
	}
	body = number.ReplaceAllStringFunc(body, func(s string) string {
		f := must(strconv.ParseFloat(s[1:len(s)-2], 64))
		return fmt.Sprintf(`"%.*g"]`, digits, f)
	})
	x := decode(t, body)
	if version < 3 {
		delete(x, "error")
	}
	delete(x, "warnings")
	delete(x, "infos")
	data := x["data"]
	if d, ok := data.(map[string]any); ok {
		data = d["result"]
	}
	if list, ok := data.([]any); ok {
		if len(list) == 2 {
			if _, scalar := list[1].(string); scalar {
				return x
			}
		}
		slices.SortStableFunc(list, func(a, b any) int { return cmp.Compare(labelsOf(a), labelsOf(b)) })
	}
	return x
}

// labelsOf is the sort key of an element of an answer: its labels, or itself.
func labelsOf(element any) string {
	if m, ok := element.(map[string]any); ok && m["metric"] != nil {
		element = m["metric"]
	}
	b, err := json.Marshal(element)
	if err != nil {
		panic(err)
	}
	return string(b)
}
