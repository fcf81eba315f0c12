package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/server"
)

type plannedSheet struct {
	Source    string
	Replicas  int
	Rates     string `json:"rates_source"`
	Scenarios []struct {
		Name, First string
		Replicas    int
		Resources   []struct {
			Resource string
			Demand   float64
			Capacity float64
			Risk     string
		}
	}
	Memory *struct {
		GPUs     int
		Requests []struct{ Most int }
	}
}

func (s *plannedSheet) demand(t *testing.T, scenario, resource string) (demand float64, risk string) {
	t.Helper()
	for _, x := range s.Scenarios {
		for _, r := range x.Resources {
			if x.Name == scenario && r.Resource == resource {
				return r.Demand, r.Risk
			}
		}
	}
	t.Fatalf("no %s in scenario %s of %+v", resource, scenario, s)
	return 0, ""
}

func planned(t *testing.T, args ...string) (s plannedSheet) {
	t.Helper()
	code, out, failed := runHere(t.Context(), append([]string{"plan", "-format", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil {
		t.Fatalf("exit %d: %s, %v in %s", code, failed, err, out)
	}
	return s
}

func TestPlanMemory(t *testing.T) {
	model, err := filepath.Abs("../../forecaster/capacity/testdata/qwen3-32b.json")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c.yaml")
	testenv.WriteFile(t, path, "pools: [{name: chat, model_config: "+model+", gpu: {type: h100-80g, per_replica: 2, weights: 61.02GiB}, replicas: {max: 4}}]")
	code, out, failed := runHere(t.Context(), "plan", "-config", path)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, failed)
	}
	for _, want := range []string{"| weights | 30.51 |", "a replica holds "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestPlanSources: stated traffic and a trace of the same traffic have nearly the same plan. Stated outputs are taken as
// exponential, so they hold a little more.
func TestPlanSources(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	rows := []string{"t_s,class,prompt_tokens,cached_tokens,output_tokens"}
	for i := range 600 {
		rows = append(rows, fmt.Sprintf("%.1f,chat,1000,400,200", float64(i)/2))
	}
	testenv.WriteFile(t, "trace.csv", rows...)
	testenv.WriteFile(t, "c.yaml", "pools:", "  - name: chat", "    kv_capacity_tokens: 40000", "    prefill_tokens_per_s: 3000", "    prefill_target: 1",
		"    decode_tokens_per_s: 900", "    replicas: {max: 12, initial: 3}")
	common := []string{"-config", "c.yaml", "-launch", "2"}
	for name, args := range map[string][]string{
		"stated": {"-requests-per-s", "2", "-prompt", "1000", "-output", "200", "-cache-hit", "0.4"},
		"trace":  {"-trace", "trace.csv"},
	} {
		s := planned(t, append(args, common...)...)
		if s.Replicas != 3 {
			t.Errorf("%s: %d replicas, want 3", name, s.Replicas)
		}
		for resource, want := range map[string]float64{"requests": 4, "prefill": 2400, "decode": 800, "kv": 22_800} {
			if got, _ := s.demand(t, "launch", resource); got < .98*want || got > 1.09*want {
				t.Errorf("%s: the launch asks for %g %s, want %g", name, got, resource, want)
			}
		}
	}
}

// TestPlanAsksTheDaemon: with -from, the daemon makes the sheet. Flags of the launch are passed on.
func TestPlanAsksTheDaemon(t *testing.T) {
	var asked string
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		w.Header().Set(server.HeaderAPI, "1")
		fmt.Fprint(w, "# Launch sheet\n")
	}))
	defer daemon.Close()
	code, out, failed := runHere(t.Context(), "plan", "-from", daemon.URL, "-pool", "chat", "-launch", "2", "-launch-cache-hit", "0", "-ramp", "1h", "-replicas", "5")
	if code != 0 || out != "# Launch sheet\n" {
		t.Fatalf("exit %d: %s%s", code, out, failed)
	}
	if want := "/api/v1/plan?cache_hit=0&format=md&launch=2&pool=chat&ramp=1h&replicas=5"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
}

// TestPlanOfAConfiguration: a sheet has the roles, limits and prices of the configuration.
func TestPlanOfAConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	testenv.WriteFile(t, "c.yaml", "pools:", "  - name: chat", "    kv_capacity_tokens: 100000", "    prefill_tokens_per_s: 10000", "    prefill_target: 1", "    decode_tokens_per_s: 2000",
		"    replicas: {max: 20, initial: 3}", "    disaggregated: {prefill_replicas: {max: 8, initial: 2}}", "    limits: {requests_per_min: 700}",
		"    gpu_hour_usd: 4")
	code, out, failed := runHere(t.Context(), "plan", "-config", "c.yaml", "-requests-per-s", "10", "-prompt", "1500", "-output", "200", "-launch", "2", "-ramp", "1h")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, failed)
	}
	for _, want := range []string{
		"Now the pool has 3 decode and 2 prefill replicas", "| requests/min, limit | 600 | 1.2k | 700 |", "blocked by limits.requests_per_min",
		"An hour with the replicas there are costs",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
