package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDefine: a definition changes keys of default_pool. The files that default_pool names are not read again. Errors
// name the key.
func TestDefine(t *testing.T) {
	model := filepath.Join(t.TempDir(), "config.json")
	text := must(os.ReadFile("../forecaster/capacity/testdata/llama3-8b.json"))
	if err := os.WriteFile(model, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Parse("forewarm.yaml", []byte("default_pool: {model_config: "+model+", gpu: {type: h100-80g, weights: 15GiB}, warmup: {p50: 3m, p90: 5m}, replicas: {max: 8}}\ndecision: {cooldown: 10m}"), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	p := must(c.Pipeline())
	if err := os.Remove(model); err != nil {
		t.Fatal(err)
	}
	got := must(p.Define("chat", []byte(`{"gpu": {"per_replica": 2}, "timezone": "Europe/Berlin", "replicas": {"min": 2, "max": 16}}`)))
	if got.Name != "chat" || got.Replicas.Max != 16 || got.GPU.PerReplica != 2 || got.Zone.String() != "Europe/Berlin" || got.KVTokens <= p.DefaultPool.KVTokens {
		t.Errorf("%+v", got)
	}
	if p.DefaultPool.Replicas.Max != 8 {
		t.Error("default_pool was changed")
	}
	for keys, want := range map[string]string{
		"{replicas: {max: 0}}":               "pools[chat].replicas.max",
		"{replicas: {maximum: 4}}":           "replicas.maximum: unknown key",
		"{warmup: {p90: 2h, p50: 1h}}":       "pools[chat].warmup.p90",
		"{warmup: {p90: soon}}":              `warmup.p90 = "soon": must be a duration`,
		"{model_config: /etc/passwd}":        "must not name a file",
		"{curve_file: ''}":                   "must not name a file",
		"{name: other}":                      `must be "chat"`,
		"{kv_capacity_tokens: many}":         `kv_capacity_tokens = "many"`,
		"[1]":                                "must be a section",
		"{":                                  "not valid YAML",
		"{name: *x}":                         "must have no tag",
		"{replicas: {max: 4}}\n---\n{rates}": "must be one YAML document",
	} {
		if _, err := p.Define("chat", []byte(keys)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
	}
}

// FuzzDefine: any keys give a pool or an error, and the same one each time.
func FuzzDefine(f *testing.F) {
	p, err := Default().Pipeline()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"replicas": {"max": 4}, "types": [{"name": "a"}]}`))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, keys []byte) {
		first, err := p.Define("chat", keys)
		again, other := p.Define("chat", keys)
		if (err == nil) != (other == nil) || err == nil && first.Replicas != again.Replicas {
			t.Errorf("%+v, %v; again %+v, %v", first, err, again, other)
		}
	})
}
