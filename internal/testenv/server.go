package testenv

import (
	"cmp"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Server is a running Prometheus, VictoriaMetrics or Alertmanager.
type Server struct {
	URL  string
	Stop func()
}

// StartPrometheus runs a Prometheus over dir until the test ends, with a configuration of so many lines. An empty address
// takes a free one. It skips the test if Prometheus is not installed.
func StartPrometheus(t testing.TB, config []string, dir, address string, flags ...string) *Server {
	t.Helper()
	binary := Program(t, "prometheus", "prometheus")
	address = cmp.Or(address, FreeAddress(t))
	cfg := WriteFile(t, filepath.Join(t.TempDir(), "prometheus.yml"), config...)
	cmd := exec.Command(binary, append(flags, "--config.file="+cfg, "--storage.tsdb.path="+dir, "--web.listen-address="+address,
		"--log.level=error", "--storage.tsdb.retention.time=1000d")...)
	return serveUntil(t, cmd, "http://"+address, "/-/ready", os.Kill)
}

// StartVictoria runs a VictoriaMetrics in the same way. CI may lack it: then the test is skipped.
func StartVictoria(t testing.TB, dir, address string) *Server {
	t.Helper()
	binary, err := exec.LookPath("victoria-metrics")
	if err != nil {
		t.Skip(err)
	}
	address = cmp.Or(address, FreeAddress(t))
	cmd := exec.Command(binary, "-storageDataPath="+dir, "-httpListenAddr="+address, "-retentionPeriod=100y", "-search.latencyOffset=0s", "-loggerLevel=ERROR")
	// SIGKILL would lose samples of the last seconds that it has accepted.
	return serveUntil(t, cmd, "http://"+address, "/health", syscall.SIGTERM)
}

// serveUntil runs a server until the test ends, and waits until it is ready.
func serveUntil(t testing.TB, cmd *exec.Cmd, url, ready string, end os.Signal) *Server {
	t.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Server{URL: url}
	p.Stop = func() {
		_ = cmd.Process.Signal(end)
		_ = cmd.Wait()
		p.Stop = func() {}
	}
	t.Cleanup(func() { p.Stop() })
	Await(t, cmd.Path+" to be ready", func() bool { code, _ := Get(url + ready); return code == http.StatusOK })
	return p
}

// StartAlertmanager runs an Alertmanager until the test ends.
func StartAlertmanager(t testing.TB) (url string) {
	t.Helper()
	dir, address := t.TempDir(), FreeAddress(t)
	config := WriteFile(t, filepath.Join(dir, "alertmanager.yml"), "route: {receiver: none}", "receivers: [{name: none}]")
	cmd := exec.Command(Alertmanager(t), "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--cluster.listen-address=")
	return serveUntil(t, cmd, "http://"+address, "/-/ready", os.Kill).URL
}

// Scalar is the value of a query with one series; 0 if there is none.
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
