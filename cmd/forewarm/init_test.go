package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/testenv"
)

// engineFiles serves the metrics of engines. The path is the name of a file in ingest/scrape/testdata.
func engineFiles(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile("../../ingest/scrape/testdata" + r.URL.Path + ".txt")
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write(text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestInit: init writes what each engine reports, and forewarm check accepts the file.
func TestInit(t *testing.T) {
	dir, url := t.TempDir()+"/", engineFiles(t)
	for name, want := range map[string]struct {
		kv   int
		max  int
		says string
	}{
		"":           {0, 8, ""},
		"vllm":       {432_000, 2, `vllm with 1 replica`},
		"vllm_ray":   {0, 4, `vllm with 2 replicas`},
		"vllm_ranks": {1600, 6, `vllm with 3 replicas`},
		"sglang":     {262_144, 2, `sglang with 1 replica`},
		"trtllm":     {128_000, 2, `trtllm with 1 replica`},
		"triton":     {399_360, 2, `triton with 1 replica`},
		"dynamo":     {320_000, 4, `dynamo with 2 replicas`},
		"epp":        {0, 4, "epp with 2 replicas"},
	} {
		path := dir + name + ".yaml"
		args, jobs := []string{"init", "-o", path, "-pool", "agents"}, 0
		if name != "" {
			args, jobs = append(args, "-metrics", url+"/"+name), 1
		}
		code, _, errs := runHere(t.Context(), args...)
		if code != 0 || !strings.Contains(errs, want.says) || !strings.Contains(errs, "guessed") {
			t.Errorf("%q: %d, %s, want %q", name, code, errs, want.says)
			continue
		}
		c, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Pools[0]; p.Name != "agents" || p.KVCapacityTokens != want.kv || p.Replicas.Max != want.max || len(c.Scrape.Jobs) != jobs {
			t.Errorf("%q: pool %+v, %d jobs, want %+v", name, p, len(c.Scrape.Jobs), want)
		}
		if code, out, errs := runHere(t.Context(), "check", "-offline", "-config", path); code != 0 {
			t.Errorf("%q: check says %s%s", name, out, errs)
		}
		text, err := os.ReadFile(path)
		if n := strings.Count(string(text), "\n"); err != nil || n > 12 {
			t.Errorf("%q: %d lines, want at most 12 (%v)", name, n, err)
		}
	}
	both := dir + "both.yaml"
	if code, _, errs := runHere(t.Context(), "init", "-o", both, "-metrics", url+"/vllm", "-metrics", url+"/sglang"); code != 0 {
		t.Fatal(errs)
	} else if !strings.Contains(errs, "replicas hold from 262144 to 432000 tokens") {
		t.Errorf("two engines that differ: %s", errs)
	}
	if c, err := config.Load(both); err != nil || len(c.Scrape.Jobs) != 2 || c.Pools[0].KVCapacityTokens != 262_144 {
		t.Errorf("two engines: %+v, %v", c, err)
	}
}

// TestInitRefuses: init replaces no file without -force, and says why an engine reported nothing.
func TestInitRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	url := engineFiles(t)
	testenv.WriteFile(t, "forewarm.yaml", "keep: me")
	for args, says := range map[string]string{
		"init":                                  "forewarm.yaml exists: name another file with -o, or replace it with -force",
		"init -o no/such.yaml":                  "no/such.yaml: no such file",
		"init -pool a.b":                        `-pool is "a.b"`,
		"init -metrics localhost":               `url is "localhost": it must be http`,
		"init -metrics http://127.0.0.1:1":      "connection refused",
		"init -metrics " + url + "/nothing":     "it answers 404",
		"init -metrics http://u:secret@1.2.3.4": "url contains credentials",
	} {
		if code, _, errs := runHere(t.Context(), strings.Fields(args)...); code == 0 || !strings.Contains(errs, says) {
			t.Errorf("%s: %d, %s, want %q", args, code, errs, says)
		}
	}
	if text, _ := os.ReadFile("forewarm.yaml"); string(text) != "keep: me\n" {
		t.Errorf("the file is now %q", text)
	}
	if code, out, errs := runHere(t.Context(), "init", "-force"); code != 0 {
		t.Errorf("-force: %s%s", out, errs)
	}
	if code, out, _ := runHere(t.Context(), "init", "-o", "-"); code != 0 || !strings.Contains(out, "pools:\n") {
		t.Errorf("to the standard output: %d, %s", code, out)
	}
}
