package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestReload: a sound configuration is taken up by the same process; one that is unsound, or that no
// daemon starts with, is refused, said and counted, and the daemon goes on.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	path, address, other := filepath.Join(dir, "forewarm.yaml"), testenv.FreeAddress(t), testenv.FreeAddress(t)
	write := func(listen string, more ...string) {
		testenv.WriteFile(t, path, append(more, "storage: {dir: data}", "nats: {embedded: {listen: none}}", "server: {listen: '"+listen+"'}")...)
	}
	write(address, soundPool)
	p := start(t, "serve", "-config", path)
	defer p.stop(t)
	page := func(address, line string) func() bool {
		return func() bool {
			_, metrics := testenv.Get("http://" + address + "/metrics")
			return p.over() || strings.Contains(metrics, "\n"+line+"\n")
		}
	}
	said := func(what string) func() bool {
		return func() bool { return p.over() || strings.Contains(p.out.String(), what) }
	}
	hangup := func() {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	const good, bad = "forewarm_config_last_reload_successful 1", "forewarm_config_last_reload_successful 0"
	testenv.Await(t, "the daemon", page(address, good))

	write(address, soundPool, "decision: {quantile: 1.5}")
	hangup()
	testenv.Await(t, "the refusal to be counted", page(address, bad))
	testenv.Await(t, "the refusal to be said", said("not reloaded, the one before stays in use: forewarm.yaml:2: decision.quantile: 1.5 is out of"))

	taken, err := net.Listen("tcp", other)
	if err != nil {
		t.Fatal(err)
	}
	write(other, soundPool)
	hangup()
	testenv.Await(t, "the taken address to be said", said("server.listen = "+other))
	testenv.Await(t, "the daemon to be back as it was", page(address, bad))
	_ = taken.Close()
	hangup()
	testenv.Await(t, "the new address", page(other, good))
}
