package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/pipeline"
)

var update = flag.Bool("update", false, "rewrite the wanted messages in testdata/invalid")

func noEnv(string) string { return "" }

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no files (%v)", pattern, err)
	}
	return names
}

func parseFile(t *testing.T, name string) (*Config, error) {
	t.Helper()
	data := must(os.ReadFile(name))
	return Parse(name, data, noEnv)
}

// parsePipeline reads a valid file of testdata.
func parsePipeline(t *testing.T, name string) (*Config, pipeline.Config) {
	t.Helper()
	c, err := parseFile(t, name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c, c.Pipeline()
}

func TestValid(t *testing.T) {
	for _, name := range files(t, "testdata/valid/*.yaml") {
		parsePipeline(t, name)
	}
}

// TestInvalid compares the messages with the "# want:" lines at the head of each file.
func TestInvalid(t *testing.T) {
	const mark = "# want: "
	for _, name := range files(t, "testdata/invalid/*.yaml") {
		data := must(os.ReadFile(name))
		var want []string
		rest := string(data)
		for strings.HasPrefix(rest, mark) {
			line, after, _ := strings.Cut(rest, "\n")
			want, rest = append(want, strings.TrimPrefix(line, mark)), after
		}
		_, err := Parse(name, data, noEnv)
		var errs Errors
		if !errors.As(err, &errs) {
			t.Errorf("%s: error %v, want Errors", name, err)
			continue
		}
		got := strings.Split(err.Error(), "\n")
		if *update {
			head := mark + strings.Join(got, "\n"+mark) + "\n"
			if err := os.WriteFile(name, []byte(head+rest), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPipeline: a model, events and a time zone of a file are in the configuration of the pipeline.
func TestPipeline(t *testing.T) {
	c, p := parsePipeline(t, "testdata/valid/model.yaml")
	if got, want := c.Pools[0].ModelConfig, filepath.Join("testdata", "valid", "models", "llama-3-8b.json"); got != want {
		t.Errorf("model_config = %q, want %q, with the directory of the file", got, want)
	}
	if safe, ok := p.Pools[0].PerReplica("kv", 0); !ok || safe <= 0 {
		t.Error("the pool has no KV capacity: the model's config.json was not used")
	}
	_, p = parsePipeline(t, "testdata/valid/events.yaml")
	if len(p.Events) != 2 || p.Events[0].Name == "" || p.Events[1].Duration != time.Hour || p.Events[1].Uncertainty != 1.5 {
		t.Errorf("events %+v", p.Events)
	}
	_, p = parsePipeline(t, "testdata/valid/default_pool_only.yaml")
	if zone := p.DefaultPool.Zone.String(); zone != "America/New_York" {
		t.Errorf("time zone %s", zone)
	}
}

// TestEnvironment: an environment variable replaces the value of the file.
func TestEnvironment(t *testing.T) {
	env := map[string]string{
		"FOREWARM_DECISION_HOLD": "3m", "FOREWARM_FEATURES_MAX_CLASSES": "7", "FOREWARM_STORAGE_DIR": "data",
		"FOREWARM_SINKS_ALERTMANAGER_URLS": "[http://a, http://b]", "FOREWARM_LOG_LEVEL": "debug",
		"FOREWARM_PORT":                 "tcp://10.0.0.1:9464", // as Kubernetes sets it
		"FOREWARM_NATS_EMBEDDED_LISTEN": "0.0.0.0:4222",        // as the image sets it
	}
	getenv := func(name string) string { return env[name] }
	data := []byte("pools: [{name: chat, replicas: {max: 8}}]\ndecision: {hold: 9m}\nfeatures: {revise: 3m}\nnats: {url: nats://nats:4222}\n")
	c := must(Parse("/etc/forewarm/forewarm.yaml", data, getenv))
	type values struct {
		Hold       time.Duration
		MaxClasses int
		Revise     time.Duration
		Dir        string
		URLs       []string
		Level      string
	}
	want := values{3 * time.Minute, 7, 3 * time.Minute, "data", []string{"http://a", "http://b"}, "debug"}
	got := values{c.Decision.Hold, c.Features.MaxClasses, c.Features.Revise, c.Storage.Dir, c.Sinks.Alertmanager.URLs, c.Log.Level}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	env["FOREWARM_DECISION_HOLD"] = "soon"
	_, err := Parse("forewarm.yaml", data, getenv)
	if want := `FOREWARM_DECISION_HOLD: decision.hold = "soon": must be a duration such as 90s, 10m, 12h or 30d`; err == nil || err.Error() != want {
		t.Errorf("error %v\nwant %s", err, want)
	}
}

// TestEnvNamesAreUnique: no two keys have the same variable, as a.b_c and a_b.c would.
func TestEnvNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, k := range leaves(reflect.ValueOf(*Default()), "") {
		key := k.name
		if strings.Contains(key, "[]") {
			continue
		}
		if other, ok := seen[EnvName(key)]; ok {
			t.Errorf("%s and %s are both set by %s", key, other, EnvName(key))
		}
		seen[EnvName(key)] = key
	}
}

func TestBounds(t *testing.T) {
	big := make([]byte, MaxBytes+1)
	if _, err := Parse("big.yaml", big, noEnv); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("oversized file: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("0\n---"))
	for _, pattern := range []string{"testdata/valid/*.yaml", "testdata/invalid/*.yaml"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("testdata/valid/fuzz.yaml", data, noEnv)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v and error %v", c, err)
		}
		var errs Errors
		if err != nil && !errors.As(err, &errs) {
			t.Fatalf("error %v is not Errors", err)
		}
		for _, e := range errs {
			if strings.ContainsAny(e, "\r\n") {
				t.Fatalf("message with more than one line: %q", e)
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
