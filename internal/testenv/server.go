package testenv

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Server is a running Prometheus or Alertmanager.
type Server struct {
	URL  string
	Stop func()
}

// StartPrometheus runs a Prometheus with its data in dir until the test ends. config has the lines of its configuration.
// An empty address means a free one. The test is skipped if Prometheus is not installed.
func StartPrometheus(t testing.TB, config []string, dir, address string, flags ...string) *Server {
	t.Helper()
	binary := Program(t, "prometheus", "prometheus")
	address = cmp.Or(address, FreeAddress(t))
	cfg := WriteFile(t, filepath.Join(t.TempDir(), "prometheus.yml"), config...)
	cmd := exec.Command(binary, append(flags, "--config.file="+cfg, "--storage.tsdb.path="+dir, "--web.listen-address="+address,
		"--log.level=error", "--storage.tsdb.retention.time=1000d")...)
	return serveUntil(t, cmd, "http://"+address, "/-/ready")
}

// serveUntil runs a server until the test ends, and waits until it is ready.
func serveUntil(t testing.TB, cmd *exec.Cmd, url, ready string) *Server {
	t.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	Await(t, cmd.Path+" to be ready", func() bool { code, _ := Get(url + ready); return code == http.StatusOK })
	return &Server{url, stop}
}

// StartAlertmanager runs an Alertmanager until the test ends. Without flags, it does not form a cluster.
func StartAlertmanager(t testing.TB, config string, flags ...string) *Server {
	t.Helper()
	if len(flags) == 0 {
		flags = []string{"--cluster.listen-address="}
	}
	dir, address := t.TempDir(), FreeAddress(t)
	cmd := exec.Command(Program(t, "prometheus-alertmanager", "prometheus-alertmanager", "alertmanager"), append(flags,
		"--config.file="+WriteFile(t, filepath.Join(dir, "alertmanager.yml"), config), "--storage.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)...)
	return serveUntil(t, cmd, "http://"+address, "/-/ready")
}

// Scalar returns the value of a query that gives one series, or 0 if it gives none.
func Scalar(t testing.TB, base, query string, at time.Time) float64 {
	t.Helper()
	client, err := api.NewClient(api.Config{Address: base})
	if err != nil {
		t.Fatal(err)
	}
	answer, _, err := promapi.NewAPI(client).Query(t.Context(), query, at)
	vector, ok := answer.(model.Vector)
	if err != nil || !ok || len(vector) > 1 {
		t.Fatalf("%s: %v: %v", query, err, answer)
	}
	if len(vector) == 0 {
		return 0
	}
	return float64(vector[0].Value)
}

// Seasonal returns a demand in requests per second. All days are equal, with a steep rise at 8:00.
func Seasonal(at time.Time) float64 {
	hour := at.Sub(at.Truncate(24 * time.Hour)).Hours()
	return 20 + 15*math.Tanh(4*(hour-8)) - 15*math.Tanh(4*(hour-18))
}

// vllmHistory returns metrics of two vLLM replicas as OpenMetrics: the given days before end, scraped every 30 seconds.
// turn moves the daily season later.
func vllmHistory(days int, end time.Time, turn time.Duration) []byte {
	const step = 30 * time.Second
	var text bytes.Buffer
	for _, instance := range []string{"a:8000", "b:8000"} {
		for name, perRequest := range map[string]float64{
			"vllm:request_success_total": 1, "vllm:prompt_tokens_total": 1000, "vllm:prompt_tokens_cached_total": 400, "vllm:generation_tokens_total": 200,
			"vllm:kv_cache_usage_perc": 0, "vllm:num_requests_running": 0,
		} {
			total := 0.0
			for at := end.AddDate(0, 0, -days); !at.After(end); at = at.Add(step) {
				rate := Seasonal(at.Add(-turn)) / 2
				total += rate * perRequest * step.Seconds()
				v := total
				if perRequest == 0 {
					v = rate / 25
				}
				fmt.Fprintf(&text, "%s{instance=%q,model_name=\"llama\"} %g %d\n", name, instance, v, at.Unix())
			}
		}
	}
	text.WriteString("# EOF") // WriteFile ends the line
	return text.Bytes()
}

// PrometheusPast starts a Prometheus that has the history of vllmHistory.
func PrometheusPast(t testing.TB, days int, end time.Time, turn time.Duration) *Server {
	dir := filepath.Join(t.TempDir(), "prometheus")
	file := WriteFile(t, filepath.Join(t.TempDir(), "history"), string(vllmHistory(days, end, turn)))
	command := exec.CommandContext(t.Context(), Program(t, "prometheus", "promtool"), "tsdb", "create-blocks-from", "openmetrics", file, dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return StartPrometheus(t, nil, dir, "")
}
