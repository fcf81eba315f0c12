package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/plan"
)

// operation is one path of the API: purpose, parameters and response. The routes and the OpenAPI document come from the
// same list.
type operation struct {
	path    string
	summary string
	query   []parameter
	answers any    // a value of the type
	get     answer // nil if the daemon adds the route
}

type parameter struct{ name, help string }

func (s *Server) operations() []operation {
	class := parameter{"class", "only this class; * is the whole pool"}
	dimension := parameter{"dimension", "only this dimension of demand"}
	return []operation{
		{"/api/v1/status", "The daemon itself: version, newest tick, producers of telemetry, alerts", nil, statusJSON{}, s.getStatus},
		{"/api/v1/pools", "All pools, a line each", []parameter{{"order", "name or urgency"}, {"limit", "at most so many, 1 to 1000"}, {"after", "only those that come after this pool"}}, poolsJSON{}, s.getPools},
		{"/api/v1/pools/{pool}", "One pool: resources, decision, alerts, what a replica can serve", nil, poolJSON{}, ofPool(s, getPool)},
		{"/api/v1/pools/{pool}/timeline", "Load over capacity, what was forecast at one moment, and what came", []parameter{{"resource", "one of " + strings.Join(resourceNames(), ", ")},
			{"at", "the moment, in RFC 3339 or Unix seconds; now without it"}}, timelineJSON{}, ofPool(s, s.timeline)},
		{"/api/v1/pools/{pool}/forecast", "The newest forecasts, minute by minute", []parameter{class, dimension}, forecastsJSON{}, ofPool(s, getForecast)},
		{"/api/v1/pools/{pool}/traffic", "Peaks, percentiles and bursts of the last day, by class", nil, trafficJSON{}, ofPool(s, s.getTraffic)},
		{"/api/v1/pools/{pool}/classes/{class}", "What is stored of a class over the last day", nil, classJSON{}, ofPool(s, s.class)},
		{"/api/v1/pools/{pool}/desired", "How many replicas an autoscaler should give a pool; 503 while there is no advice, 400 for a role that the pool does not have", []parameter{{"role", "all, prefill or decode"}}, desiredJSON{}, s.getDesired},
		{"/api/v1/explain", "What a forecast rests on", []parameter{{"pool", "its name; required"}, class, dimension}, forecastBasisJSON{}, s.getForecastBasis},
		{"/api/v1/explain/{id...}", "What a decision rests on: an event's id, its evidence, or a pool for its newest", []parameter{{"format", "json or text"}}, alerting.Explanation{}, s.getExplanation},
		{"/api/v1/plan", "A launch sheet: what runs out first, when, and what it takes", planParameters, plan.Sheet{}, nil},
		{"/api/v1/report", "The report of a period: how good forecasts and alarms were", []parameter{{"from", "RFC 3339 or a day; a week before to without it"}, {"to", "the end; the newest decision without it"}, {"timezone", "IANA zone of days and times; report.timezone without it"}, {"format", "md (default), json or html"}}, nil, nil},
	}
}

var planParameters = []parameter{{"pool", "its name; may be left out where there is one pool"}, {"launch", "traffic as a multiple of today's"}, {"prompt", "length of prompts as a multiple"}, {"output", "length of outputs as a multiple"},
	{"cache_hit", "cache hits as a multiple"}, {"retry", "more attempts, as a share of those of today"}, {"replicas", "replicas there are"}, {"prefill_replicas", "prefill replicas there are"}, {"ramp", "time until all of the change has come, such as 20m"}, {"format", "html (default), md or json; the answer below is that of json"}}

// getOpenAPI answers with the OpenAPI 3.1 document of the API.
func (s *Server) getOpenAPI(*http.Request) (any, error) {
	type object = map[string]any
	schemas, paths := object{}, object{}
	problem := object{"description": "Why there is no answer", "content": object{"application/problem+json": object{"schema": schemaOf(reflect.TypeFor[Problem](), schemas)}}}
	for _, o := range s.operations() {
		parameters := []object{}
		for _, part := range strings.Split(o.path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				name = strings.TrimRight(name, ".}")
				parameters = append(parameters, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
			}
		}
		for _, q := range o.query {
			parameters = append(parameters, object{"name": q.name, "in": "query", "description": q.help, "schema": object{"type": "string"}})
		}
		content := object{"text/markdown": object{}, "text/html": object{}, "application/json": object{}}
		if o.answers != nil {
			content = object{"application/json": object{"schema": schemaOf(reflect.TypeOf(o.answers), schemas)}}
		}
		paths[strings.ReplaceAll(o.path, "...", "")] = object{"get": object{"summary": o.summary, "parameters": parameters,
			"responses": object{"200": object{"description": o.summary, "content": content}, "default": problem}}}
	}
	return object{"openapi": "3.1.0", "info": object{"title": "Forewarm", "version": s.reader.Status().Version, "description": "Read only. What is not known is null. Times are UTC; rates are a second, shares are of 1."},
		"paths": paths, "components": object{"schemas": schemas}}, nil
}

// schemaOf is the schema of a type; named structs are added once to schemas.
func schemaOf(t reflect.Type, schemas map[string]any) map[string]any {
	type object = map[string]any
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return object{"anyOf": []any{schemaOf(t.Elem(), schemas), object{"type": "null"}}}
	case t.Kind() == reflect.Float64 && t.Implements(reflect.TypeFor[json.Marshaler]()):
		return object{"type": []string{"number", "null"}}
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return object{} // it has its own encoding
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		schema := object{"type": []string{"array", "null"}, "items": schemaOf(t.Elem(), schemas)}
		if t.Kind() == reflect.Array {
			schema["minItems"], schema["maxItems"] = t.Len(), t.Len()
		}
		return schema
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": schemaOf(t.Elem(), schemas)}
	case reflect.Struct:
		name := strings.TrimSuffix(t.Name(), "JSON")
		if name == "" {
			return objectOf(t, schemas)
		}
		if _, done := schemas[name]; !done {
			schemas[name] = nil // for recursive types
			schemas[name] = objectOf(t, schemas)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	return object{}
}

func objectOf(t reflect.Type, schemas map[string]any) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() || f.Anonymous && name == "":
			continue
		case name == "":
			name = f.Name
		}
		properties[name] = schemaOf(f.Type, schemas)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}
