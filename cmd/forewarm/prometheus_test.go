package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// prometheusServer is a real Prometheus over a directory.
type prometheusServer struct {
	url  string
	stop func()
}

// startPrometheus runs a Prometheus over dir until the test ends; an empty address takes a free one. It skips the test
// where none is installed.
func startPrometheus(t *testing.T, dir, address string, flags ...string) *prometheusServer {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("FOREWARM_CI") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if address == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address = l.Addr().String()
		_ = l.Close()
	}
	cfg := writeFile(t, filepath.Join(t.TempDir(), "prometheus.yml"), "global: {}")
	cmd := exec.Command(binary, append(flags, "--config.file="+cfg, "--storage.tsdb.path="+dir, "--web.listen-address="+address,
		"--log.level=error", "--storage.tsdb.retention.time=1000d")...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &prometheusServer{url: "http://" + address}
	p.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		p.stop = func() {}
	}
	t.Cleanup(func() { p.stop() })
	await(t, "Prometheus to be ready", func() bool {
		resp, err := http.Get(p.url + "/-/ready")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	return p
}
