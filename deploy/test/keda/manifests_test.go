package keda

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"
)

const manifests = "../../keda"

// TestManifests checks each object in deploy/keda: those of KEDA against its custom resource definitions, autoscalers
// by decoding into the type of the Kubernetes API, where an unknown key is an error.
func TestManifests(t *testing.T) {
	definitions := map[string]schema{
		"ScaledObject":          definition(t, "scaledobjects"),
		"TriggerAuthentication": definition(t, "triggerauthentications"),
	}
	seen := map[string]int{}
	for file, object := range objects(t) {
		kind, _ := object["kind"].(string)
		seen[kind]++
		switch crd, ok := definitions[kind]; {
		case ok:
			for _, problem := range crd.check("", object) {
				t.Errorf("%s: %s%s", file, kind, problem)
			}
		case kind == "HorizontalPodAutoscaler":
			text, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			var hpa autoscaling.HorizontalPodAutoscaler
			if err := yaml.UnmarshalStrict(text, &hpa); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if m := hpa.Spec.Metrics; len(m) != 1 || m[0].External == nil || m[0].External.Target.Type != autoscaling.AverageValueMetricType || m[0].External.Target.AverageValue.Value() != 1 {
				t.Errorf("%s: it must have one external metric with an average value of 1", file)
			}
		default:
			t.Errorf("%s: no schema for %q", file, kind)
		}
	}
	for _, kind := range []string{"ScaledObject", "TriggerAuthentication", "HorizontalPodAutoscaler"} {
		if seen[kind] == 0 {
			t.Errorf("no %s", kind)
		}
	}
}

// TestSchemaRefuses: the check of TestManifests finds errors.
func TestSchemaRefuses(t *testing.T) {
	crd := definition(t, "scaledobjects")
	for want, text := range map[string]string{
		".spec.fallback.behavior: sometimes is none of": "{spec: {fallback: {failureThreshold: 1, replicas: 1, behavior: sometimes}, scaleTargetRef: {name: a}, triggers: []}}",
		".spec.fallback.replicas: missing":              "{spec: {fallback: {failureThreshold: 1}, scaleTargetRef: {name: a}, triggers: []}}",
		".spec.fallbacks: unknown":                      "{spec: {fallbacks: {}, scaleTargetRef: {name: a}, triggers: []}}",
		".spec.pollingInterval: 15s is no integer":      "{spec: {pollingInterval: 15s, scaleTargetRef: {name: a}, triggers: []}}",
		".spec.triggers[0].metadata.pool: 1 is no str":  "{spec: {scaleTargetRef: {name: a}, triggers: [{type: external, metadata: {pool: 1}}]}}",
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		if problems := crd.check("", object); len(problems) != 1 || !strings.HasPrefix(problems[0], want) {
			t.Errorf("%q, want %s", problems, want)
		}
	}
}

// TestTriggers: each key of a trigger is in the source of KEDA's scaler, and the fallback never removes replicas.
func TestTriggers(t *testing.T) {
	sources := map[string]string{
		"prometheus": "prometheus_scaler.go", "metrics-api": "metrics_api_scaler.go", "external-push": "external_scaler.go",
	}
	ours := []string{"pool", "role"} // passed on to the external scaler
	for file, object := range objects(t) {
		if object["kind"] != "ScaledObject" {
			continue
		}
		text, err := json.Marshal(object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		var spec struct {
			Fallback struct{ Behavior string }
			Triggers []struct {
				Type, MetricType string
				Metadata         map[string]string
			}
		}
		if err := json.Unmarshal(text, &spec); err != nil || len(spec.Triggers) != 1 {
			t.Fatalf("%s: %v, %d triggers", file, err, len(spec.Triggers))
		}
		trigger := spec.Triggers[0]
		if spec.Fallback.Behavior != "currentReplicasIfHigher" || trigger.MetricType != "AverageValue" {
			t.Errorf("%s: fallback %q, metric type %q", file, spec.Fallback.Behavior, trigger.MetricType)
		}
		source, err := os.ReadFile(filepath.Join(module(t), "pkg/scalers", sources[trigger.Type]))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, key := range slices.Sorted(maps.Keys(trigger.Metadata)) {
			if trigger.Type == "external-push" && slices.Contains(ours, key) {
				continue
			}
			if !regexp.MustCompile(`keda:"name=` + key + `[,"]`).Match(source) {
				t.Errorf("%s: a %s trigger has no key %s", file, trigger.Type, key)
			}
		}
		if trigger.Type == "prometheus" && trigger.Metadata["ignoreNullValues"] != "false" {
			t.Errorf("%s: ignoreNullValues is not false, so missing data would count as 0", file)
		}
	}
}

// objects iterates over the Kubernetes objects of the manifests, each with its file.
func objects(t *testing.T) func(func(string, map[string]any) bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	return func(yield func(string, map[string]any) bool) {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, document := range bytes.Split(text, []byte("\n---\n")) {
				var object map[string]any
				if err := yaml.UnmarshalStrict(document, &object); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				if object["apiVersion"] != nil && !yield(filepath.Base(file), object) {
					return
				}
			}
		}
	}
}

// module returns the directory of KEDA's module.
func module(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// schema is what custom resource definitions use of OpenAPI: types, required keys, bounds and enumerations.
type schema struct {
	Type                 string
	Properties           map[string]schema
	AdditionalProperties *schema
	Required             []string
	Items                *schema
	Enum                 []any
	Minimum              *float64
	IntOrString          bool `json:"x-kubernetes-int-or-string"`
	PreserveUnknown      bool `json:"x-kubernetes-preserve-unknown-fields"`
}

func definition(t *testing.T, plural string) schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(module(t), "config/crd/bases/keda.sh_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil || len(crd.Spec.Versions) != 1 {
		t.Fatalf("%v, %d versions", err, len(crd.Spec.Versions))
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// check returns the errors of value, each with its place.
func (s *schema) check(place string, value any) (problems []string) {
	wrong := func(at, format string, args ...any) {
		problems = append(problems, at+": "+fmt.Sprintf(format, args...))
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		wrong(place, "%v is none of %v", value, s.Enum)
	}
	switch v := value.(type) {
	case map[string]any:
		if s.Type != "object" {
			wrong(place, "an object, not %s", s.Type)
			return problems
		}
		for _, key := range s.Required {
			if _, ok := v[key]; !ok {
				wrong(place+"."+key, "missing")
			}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := place + "." + key
			switch property, known := s.Properties[key]; {
			case known:
				problems = append(problems, property.check(at, v[key])...)
			case s.AdditionalProperties != nil:
				problems = append(problems, s.AdditionalProperties.check(at, v[key])...)
			case len(s.Properties) > 0 && !s.PreserveUnknown:
				wrong(at, "unknown")
			}
		}
	case []any:
		if s.Type != "array" || s.Items == nil {
			wrong(place, "a list, not %s", s.Type)
			return problems
		}
		for i := range v {
			problems = append(problems, s.Items.check(fmt.Sprintf("%s[%d]", place, i), v[i])...)
		}
	case float64:
		if s.IntOrString {
			break
		}
		if s.Type != "number" && (s.Type != "integer" || v != float64(int64(v))) {
			wrong(place, "%v is no %s", v, s.Type)
		} else if s.Minimum != nil && v < *s.Minimum {
			wrong(place, "%v is below %v", v, *s.Minimum)
		}
	case string:
		if s.Type != "string" && !s.IntOrString {
			wrong(place, "%v is no %s", v, s.Type)
		}
	case bool:
		if s.Type != "boolean" {
			wrong(place, "%v is no %s", v, s.Type)
		}
	}
	return problems
}
