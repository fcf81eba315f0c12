package docs_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/forewarm/forewarm/internal/testenv"
)

const patience = time.Minute

// daemon is forewarm serve in a process of its own.
type daemon struct{ base string }

// startDaemon serves a configuration until the test ends.
func startDaemon(t *testing.T, config string) *daemon {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), testenv.FreeAddress(t)
	config += "nats: {embedded: {listen: none}}\nserver: {listen: '" + address + "'}\nlog: {level: error}\n"
	if err := os.WriteFile(filepath.Join(dir, "forewarm.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "serve")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	d := &daemon{"http://" + address}
	testenv.Await(t, "the daemon to answer", func() bool {
		res, err := http.Get(d.base + "/healthz")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	})
	return d
}
