package promapi

import (
	"net/http"
	"testing"
)

// TestGrafana sends the requests of a Grafana that has Forewarm as a Prometheus data source: the health check of "Save
// & test" (pkg/promlib/healthcheck.go, heuristics.go), those of its query editor (grafana-prometheus
// language_provider.ts, resource_clients.ts), and those of a panel (pkg/promlib/client/client.go). Times are Unix
// seconds. Grafana uses POST where a path accepts it. After a 405 or 400 it tries again with GET.
func TestGrafana(t *testing.T) {
	h := handler(fillStore(t, t.TempDir()), maxSamples, queryTimeout)
	from, to := start.Unix(), start.Unix()+3600
	within := func(pairs ...any) []any { return append(pairs, "start", from, "end", to) }
	for _, step := range []struct {
		name string
		question
		code int
		want func(data any) bool
	}{
		{"health check", question{path: "query", form: form("query", "1+1", "time", 4), post: true}, http.StatusOK, func(data any) bool {
			d := data.(map[string]any)
			return d["resultType"] == "scalar" && d["result"].([]any)[1] == "2"
		}},
		{"build info, by POST", question{path: "status/buildinfo", post: true}, http.StatusMethodNotAllowed, nil},
		{"build info without features, as of Prometheus", question{path: "status/buildinfo"}, http.StatusOK, func(data any) bool {
			d := data.(map[string]any)
			return d["version"] == prometheusVersion && d["features"] == nil && d["revision"] == "v1.2.3"
		}},
		{"names of metrics", question{path: "label/__name__/values", form: form(within("limit", 40_000)...)}, http.StatusOK, holds("forewarm_forecast")},
		{"metadata", question{path: "metadata", form: form("limit", 40_000)}, http.StatusOK, func(data any) bool {
			return data.(map[string]any)["forewarm_forecast"] != nil
		}},
		{"names of labels", question{path: "labels", form: form(within("limit", 40_000)...), post: true}, http.StatusOK, holds("quantile")},
		{
			"labels of a metric", question{path: "labels", form: form(within("match[]", `{__name__="forewarm_forecast"}`)...), post: true},
			http.StatusOK, holds("horizon"),
		},
		{
			"values of a label", question{path: "label/class/values", form: form(within("match[]", `{__name__="forewarm_forecast"}`)...)},
			http.StatusOK, holds("chat"),
		},
		{
			"series", question{path: "series", form: form(within("match[]", `forewarm_forecast{class="chat"}`, "limit", 40_000)...), post: true},
			http.StatusOK, func(data any) bool { return len(data.([]any)) == 2 },
		},
		{"rules", question{path: "rules"}, http.StatusOK, func(data any) bool { return len(data.(map[string]any)["groups"].([]any)) == 0 }},
		{
			"panel", question{path: "query_range", form: form(within("query", "sum by(class) (forewarm_forecast)", "step", 15)...), post: true},
			http.StatusOK, func(data any) bool { return len(data.(map[string]any)["result"].([]any)) == 3 },
		},
		{"syntax error, by POST", question{path: "query", form: form("query", "sum("), post: true}, http.StatusBadRequest, nil},
	} {
		code, body := ask(t, h, step.question)
		if code != step.code {
			t.Errorf("%s: status %d, want %d: %s", step.name, code, step.code, body)
		} else if step.want != nil && !step.want(decode(t, body)["data"]) {
			t.Errorf("%s: %s", step.name, body)
		}
	}
}

// holds reports whether an answer is a list with an element.
func holds(element string) func(data any) bool {
	return func(data any) bool {
		for _, x := range data.([]any) {
			if x == element {
				return true
			}
		}
		return false
	}
}
