package docs_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

// startDaemon runs forewarm serve as a process until the test ends. It returns the address of its HTTP server.
func startDaemon(t *testing.T, config ...string) (url string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), testenv.FreeAddress(t)
	testenv.WriteFile(t, filepath.Join(dir, "forewarm.yaml"), append(config, "nats: {embedded: {listen: none}}", "server: {listen: '"+address+"'}", "log: {level: error}")...)
	cmd := exec.Command(path, "serve")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	url = "http://" + address
	testenv.Await(t, "the daemon to answer", func() bool { code, _ := testenv.Get(url + "/healthz"); return code == http.StatusOK })
	return url
}
