package main

import (
	"cmp"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

// prometheusServer is a real Prometheus, or what speaks like one, over a directory.
type prometheusServer struct {
	url  string
	stop func()
}

// startPrometheus runs a Prometheus over dir until the test ends; an empty address takes a free one. It skips the test
// where none is installed.
func startPrometheus(t *testing.T, dir, address string, flags ...string) *prometheusServer {
	t.Helper()
	return startPrometheusOf(t, []string{"global: {}"}, dir, address, flags...)
}

// startPrometheusOf is startPrometheus with a configuration of so many lines.
func startPrometheusOf(t *testing.T, config []string, dir, address string, flags ...string) *prometheusServer {
	t.Helper()
	binary := testenv.Program(t, "prometheus", "prometheus")
	address = cmp.Or(address, testenv.FreeAddress(t))
	cfg := writeFile(t, filepath.Join(t.TempDir(), "prometheus.yml"), config...)
	cmd := exec.Command(binary, append(flags, "--config.file="+cfg, "--storage.tsdb.path="+dir, "--web.listen-address="+address,
		"--log.level=error", "--storage.tsdb.retention.time=1000d")...)
	return serveUntil(t, cmd, "http://"+address, "/-/ready", os.Kill)
}

// startVictoria runs a VictoriaMetrics in the same way. It is not among what CI must have: where there is none the test is
// skipped.
func startVictoria(t *testing.T, dir, address string) *prometheusServer {
	t.Helper()
	binary, err := exec.LookPath("victoria-metrics")
	if err != nil {
		t.Skip(err)
	}
	address = cmp.Or(address, testenv.FreeAddress(t))
	cmd := exec.Command(binary, "-storageDataPath="+dir, "-httpListenAddr="+address, "-retentionPeriod=100y", "-search.latencyOffset=0s", "-loggerLevel=ERROR")
	return serveUntil(t, cmd, "http://"+address, "/health", syscall.SIGTERM) // killed, it loses what it has answered for in the last seconds
}

// serveUntil runs a server until the test ends, and waits until it is ready.
func serveUntil(t *testing.T, cmd *exec.Cmd, url, ready string, end os.Signal) *prometheusServer {
	t.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &prometheusServer{url: url}
	p.stop = func() {
		_ = cmd.Process.Signal(end)
		_ = cmd.Wait()
		p.stop = func() {}
	}
	t.Cleanup(func() { p.stop() })
	testenv.Await(t, cmd.Path+" to be ready", func() bool { code, _ := get(url + ready); return code == http.StatusOK })
	return p
}
