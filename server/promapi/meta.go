package promapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
)

// metricMetadata returns type, help and unit of series by name.
func (a *API) metricMetadata(_ context.Context, r *http.Request) (answer, *failure) {
	limit := -1                                                  // none
	for _, name := range []string{"limit", "limit_per_metric"} { // a name has one description
		text := r.Form.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return answer{}, refuse(fmt.Errorf("%s must be a number", name))
		}
		if name == "limit" {
			limit = n
		}
	}
	found, metric := map[string][]Metadata{}, r.Form.Get("metric")
	for _, name := range slices.Sorted(maps.Keys(a.metadata)) {
		if limit >= 0 && len(found) >= limit {
			break
		}
		if metric == "" || metric == name {
			found[name] = []Metadata{a.metadata[name]}
		}
	}
	return answer{data: found}, nil
}

// prometheusVersion is the release of the built-in Prometheus engine: module v0.315.0 is release 3.15.0.
const prometheusVersion = "3.15.0"

// buildInfo returns the Prometheus version, from which clients derive the supported API, and Forewarm's version.
func (a *API) buildInfo(context.Context, *http.Request) (answer, *failure) {
	return answer{data: map[string]string{
		"version": prometheusVersion, "revision": a.version, "branch": "", "buildUser": "", "buildDate": "",
		"goVersion": runtime.Version(), "application": "Forewarm",
	}}, nil
}

// rules answers with no rules: Forewarm evaluates none.
func (a *API) rules(context.Context, *http.Request) (answer, *failure) {
	return answer{data: map[string][]string{"groups": {}}}, nil
}
