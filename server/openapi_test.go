package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/plan"
)

// compile compiles a schema of the OpenAPI document.
func compile(t *testing.T, pointer string) *jsonschema.Schema {
	t.Helper()
	document := must(jsonschema.UnmarshalJSON(bytes.NewReader(openAPI)))
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	return must(c.Compile("openapi.json#" + pointer))
}

// checkFields compares the names of a type's fields with the properties of its schema, also for the types of the
// fields.
func checkFields(t *testing.T, of reflect.Type, s *jsonschema.Schema, seen map[reflect.Type]bool) {
	t.Helper()
	if s != nil && s.Ref != nil {
		s = s.Ref
	}
	switch {
	case s == nil:
		t.Errorf("%s has no schema", of)
	case of.Kind() == reflect.Pointer:
		checkFields(t, of.Elem(), s.AnyOf[0], seen)
	case of.Implements(reflect.TypeFor[json.Marshaler]()) || of == reflect.TypeFor[time.Time]():
	case of.Kind() == reflect.Slice || of.Kind() == reflect.Array:
		checkFields(t, of.Elem(), s.Items2020, seen)
	case of.Kind() == reflect.Map:
		checkFields(t, of.Elem(), s.AdditionalProperties.(*jsonschema.Schema), seen)
	case of.Kind() == reflect.Struct && !seen[of]:
		seen[of] = true
		var names []string
		for _, f := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() || f.Anonymous && name == "" {
				continue
			}
			names = append(names, name)
			checkFields(t, f.Type, s.Properties[name], seen)
		}
		slices.Sort(names)
		if documented := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(names, documented) {
			t.Errorf("%s has the fields %v, the document has %v", of, names, documented)
		}
	}
}

// TestOpenAPI compares the document with the types and answers of all paths.
func TestOpenAPI(t *testing.T) {
	s := fullServer()
	asked := map[string]struct {
		answer any
		at     []string
	}{
		"/api/v1/status":                       {statusJSON{}, []string{"/api/v1/status"}},
		"/api/v1/pools":                        {poolsJSON{}, []string{"/api/v1/pools"}},
		"/api/v1/pools/{pool}":                 {poolJSON{}, []string{"/api/v1/pools/chat", "/api/v1/pools/batch", "/api/v1/pools/none"}},
		"/api/v1/pools/{pool}/timeline":        {timelineJSON{}, []string{"/api/v1/pools/chat/timeline?resource=kv", "/api/v1/pools/chat/timeline?at=2026-11-16T08:05:00Z", "/api/v1/pools/chat/timeline?at=x", "/api/v1/pools/batch/timeline"}},
		"/api/v1/pools/{pool}/forecast":        {forecastsJSON{}, []string{"/api/v1/pools/chat/forecast"}},
		"/api/v1/pools/{pool}/classes/{class}": {classJSON{}, []string{"/api/v1/pools/chat/classes/*", "/api/v1/pools/batch/classes/none"}},
		"/api/v1/pools/{pool}/desired":         {desiredJSON{}, []string{"/api/v1/pools/chat/desired", "/api/v1/pools/none/desired"}},
		"/api/v1/explain":                      {forecastBasisJSON{}, []string{"/api/v1/explain?pool=chat&dimension=requests"}},
		"/api/v1/explain/{id}":                 {alerting.Explanation{}, []string{"/api/v1/explain/chat-3", "/api/v1/explain/chat-3?format=pdf"}},
		"/api/v1/plan":                         {plan.Sheet{}, nil}, // answered by the daemon
		"/api/v1/report":                       {},
		"/api/v1/openapi.json":                 {nil, []string{"/api/v1/openapi.json"}},
	}
	if got, want := slices.Sorted(maps.Keys(parametersOf)), slices.Sorted(maps.Keys(asked)); !slices.Equal(got, want) {
		t.Errorf("the document has the paths %v, this test has %v", got, want)
	}
	problem, seen := compile(t, "/components/schemas/Problem"), map[reflect.Type]bool{}
	for path, x := range asked {
		if path == "/api/v1/report" {
			continue // not JSON by default
		}
		schema := compile(t, "/paths/"+strings.ReplaceAll(path, "/", "~1")+"/get/responses/200/content/application~1json/schema")
		if x.answer != nil {
			checkFields(t, reflect.TypeOf(x.answer), schema, seen)
		}
		for _, address := range x.at {
			w := get(t, s, address)
			want, kind := schema, "application/json"
			if w.Code != http.StatusOK {
				want, kind = problem, "application/problem+json"
			}
			if got := w.Header().Get("Content-Type"); got != kind {
				t.Errorf("%s: %d is %q, want %s", address, w.Code, got, kind)
			}
			v, err := jsonschema.UnmarshalJSON(w.Body)
			if err != nil {
				t.Errorf("%s: %v", address, err)
			}
			if err := want.Validate(v); err != nil {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}
