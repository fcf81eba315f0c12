package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestReload: a daemon takes a valid configuration by SIGHUP. It refuses an invalid one, and one with
// which it cannot start. It logs and counts the refusal, and continues with the one before.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, address, other := filepath.Join(dir, "forewarm.yaml"), testenv.FreeAddress(t), testenv.FreeAddress(t)
	write := func(listen string, more ...string) {
		testenv.WriteFile(t, path, append(more, "storage: {dir: data}", "nats: {embedded: {listen: none}}", "server: {listen: '"+listen+"'}")...)
	}
	write(address, validPool)
	p := start(t, "serve", "-config", path)
	defer p.stop(t)
	page := func(address, line string) func() bool {
		return func() bool {
			_, metrics := testenv.Get("http://" + address + "/metrics")
			return p.over() || strings.Contains(metrics, "\n"+line+"\n")
		}
	}
	logged := func(what string) func() bool {
		return func() bool { return p.over() || strings.Contains(p.out.String(), what) }
	}
	hangup := func() {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	const good, bad = "forewarm_config_last_reload_successful 1", "forewarm_config_last_reload_successful 0"
	testenv.Await(t, "the daemon", page(address, good))

	write(address, validPool, "decision: {quantile: 1.5}")
	hangup()
	testenv.Await(t, "the refusal to be counted", page(address, bad))
	testenv.Await(t, "the refusal to be logged", logged("not reloaded, the one before stays in use: forewarm.yaml:2: decision.quantile: 1.5 is out of"))
	if code, body := testenv.Get("http://" + address + "/readyz"); code != http.StatusOK || !strings.Contains(body, "the one before stays in use: forewarm.yaml:2: decision.quantile: 1.5 is out of") {
		t.Errorf("/readyz after a refused file: %d, %s", code, body)
	}

	taken, err := net.Listen("tcp", other)
	if err != nil {
		t.Fatal(err)
	}
	write(other, validPool)
	hangup()
	testenv.Await(t, "the taken address to be logged", logged("server.listen = "+other))
	testenv.Await(t, "the daemon to be back on the old address", page(address, bad))
	_ = taken.Close()
	hangup()
	testenv.Await(t, "the new address", page(other, good))
}

// TestReloadInAnOutage: no daemon starts without NATS, so the running one goes on.
func TestReloadInAnOutage(t *testing.T) {
	t.Parallel()
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go broker.Start()
	defer broker.Shutdown()
	if !broker.ReadyForConnections(testenv.Patience) {
		t.Fatal("nats-server does not start")
	}
	address := testenv.FreeAddress(t)
	p := start(t, "serve", "-config", testenv.WriteFile(t, filepath.Join(t.TempDir(), "forewarm.yaml"), validPool,
		"storage: {dir: data}", "nats: {url: '"+broker.ClientURL()+"'}", "server: {listen: '"+address+"'}"))
	defer p.kill(t)
	answers := func(path, text string) func() bool {
		return func() bool {
			_, body := testenv.Get("http://" + address + path)
			return p.over() || strings.Contains(body, text)
		}
	}
	testenv.Await(t, "the daemon", answers("/healthz", "ok"))
	broker.Shutdown()
	testenv.Await(t, "the outage to be seen", answers("/readyz", "not connected; it is tried again"))
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the reload to be refused", answers("/readyz", "NATS does not answer, and no daemon starts without it"))
}
