package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// conform lists where v does not match a schema of the document.
func conform(document map[string]any, schema any, v any, at string) (wrong []string) {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		named := document["components"].(map[string]any)["schemas"].(map[string]any)[strings.TrimPrefix(ref, "#/components/schemas/")]
		if named == nil {
			return []string{at + ": no schema " + ref}
		}
		return conform(document, named, v, at)
	}
	if any, ok := s["anyOf"].([]any); ok {
		for _, one := range any {
			if wrong = conform(document, one, v, at); len(wrong) == 0 {
				return nil
			}
			if v != nil {
				return wrong
			}
		}
		return wrong
	}
	var types []string
	switch t := s["type"].(type) {
	case string:
		types = []string{t}
	case []any:
		for _, x := range t {
			types = append(types, fmt.Sprint(x))
		}
	default:
		return nil
	}
	is := map[bool]string{true: "null"}[v == nil]
	switch x := v.(type) {
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case float64:
		if is = "number"; x == float64(int64(x)) && slices.Contains(types, "integer") {
			is = "integer"
		}
	case []any:
		is = "array"
		for i, e := range x {
			wrong = append(wrong, conform(document, s["items"], e, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		is = "object"
		properties, _ := s["properties"].(map[string]any)
		for name, e := range x {
			of, ok := properties[name]
			if !ok {
				of = s["additionalProperties"]
			}
			if of == false {
				wrong = append(wrong, at+"."+name+": not in the document")
				continue
			}
			wrong = append(wrong, conform(document, of, e, at+"."+name)...)
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := x[name.(string)]; !ok {
				wrong = append(wrong, at+"."+name.(string)+": missing")
			}
		}
	}
	if !slices.Contains(types, is) {
		wrong = append(wrong, fmt.Sprintf("%s: %s, want %v", at, is, types))
	}
	return wrong
}

// TestOpenAPI compares the document with the answers of all its paths.
func TestOpenAPI(t *testing.T) {
	s := fullServer()
	var document map[string]any
	if err := json.Unmarshal(get(t, s, "/api/v1/openapi.json").Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	asked := map[string][]string{
		"/api/v1/status":                       {"/api/v1/status"},
		"/api/v1/pools":                        {"/api/v1/pools", "/api/v1/pools?limit=1&order=urgency", "/api/v1/pools?limit=0"},
		"/api/v1/pools/{pool}":                 {"/api/v1/pools/chat", "/api/v1/pools/batch", "/api/v1/pools/none"},
		"/api/v1/pools/{pool}/timeline":        {"/api/v1/pools/chat/timeline?resource=kv", "/api/v1/pools/chat/timeline?at=2026-11-16T08:05:00Z", "/api/v1/pools/chat/timeline?at=x", "/api/v1/pools/batch/timeline"},
		"/api/v1/pools/{pool}/forecast":        {"/api/v1/pools/chat/forecast"},
		"/api/v1/pools/{pool}/traffic":         {"/api/v1/pools/chat/traffic"},
		"/api/v1/pools/{pool}/classes/{class}": {"/api/v1/pools/chat/classes/*", "/api/v1/pools/batch/classes/none"},
		"/api/v1/pools/{pool}/desired":         {"/api/v1/pools/chat/desired", "/api/v1/pools/none/desired"},
		"/api/v1/explain":                      {"/api/v1/explain?pool=chat&dimension=requests"},
		"/api/v1/explain/{id}":                 {"/api/v1/explain/chat-3", "/api/v1/explain/chat-3?format=pdf"},
		"/api/v1/plan":                         nil, // of the daemon
		"/api/v1/report":                       nil,
	}
	paths := document["paths"].(map[string]any)
	for path, at := range asked {
		operation, ok := paths[path].(map[string]any)
		if !ok {
			t.Errorf("%s is not in the document", path)
			continue
		}
		responses := operation["get"].(map[string]any)["responses"].(map[string]any)
		for _, address := range at {
			w := get(t, s, address)
			response, kind := responses["200"], "application/json"
			if w.Code != http.StatusOK {
				response, kind = responses["default"], "application/problem+json"
			}
			content, ok := response.(map[string]any)["content"].(map[string]any)[w.Header().Get("Content-Type")].(map[string]any)
			if !ok {
				t.Errorf("%s: %d is %q, want %s", address, w.Code, w.Header().Get("Content-Type"), kind)
				continue
			}
			var v any
			if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
				t.Errorf("%s: %v", address, err)
			}
			for _, wrong := range conform(document, content["schema"], v, address) {
				t.Error(wrong)
			}
		}
	}
	for path := range paths {
		if _, ok := asked[path]; !ok {
			t.Errorf("%s is in the document, and this test does not ask for it", path)
		}
	}
}

// TestConform: conform finds a missing field, an additional field, and a field of another type.
func TestConform(t *testing.T) {
	document := map[string]any{}
	schema := map[string]any{"type": "object", "required": []any{"a"}, "additionalProperties": false, "properties": map[string]any{"a": map[string]any{"type": "integer"}}}
	for text, want := range map[string]int{`{"a":1}`: 0, `{"a":1.5}`: 1, `{}`: 1, `{"a":1,"b":2}`: 1, `null`: 1, `{"a":null}`: 1} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if got := conform(document, schema, v, ""); len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestPaging: each pool is on one page.
func TestPaging(t *testing.T) {
	s, seen, after := fullServer(), []string{}, ""
	for range 3 {
		var page poolsJSON
		if err := json.Unmarshal(get(t, s, "/api/v1/pools?limit=1&after="+after).Body.Bytes(), &struct {
			Pools *[]summaryJSON
			Next  **string
		}{&page.Pools, &page.Next}); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, page.Pools[0].Pool)
		if page.Next == nil {
			break
		}
		after = *page.Next
	}
	if !slices.Equal(seen, []string{"batch", "chat"}) {
		t.Errorf("%v", seen)
	}
}
