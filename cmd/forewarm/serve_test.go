package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/internal/testenv"
)

// daemonHere is forewarm serve in the test's process, with a plain NATS client.
type daemonHere struct {
	nats string
	base string // of its HTTP server
	conn *nats.Conn
	stop func()
}

// startDaemon runs forewarm serve with a configuration. It adds a directory and addresses.
func startDaemon(t *testing.T, lines ...string) *daemonHere {
	t.Helper()
	dir := t.TempDir()
	address, page := testenv.FreeAddress(t), testenv.FreeAddress(t)
	p := &daemonHere{nats: "nats://" + address, base: "http://" + page}
	path := testenv.WriteFile(t, filepath.Join(dir, "forewarm.yaml"), append(lines, "nats: {embedded: {listen: '"+address+"'}}",
		"storage: {dir: data}", "server: {listen: '"+page+"'}", "log: {level: error}")...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		problem := ""
		if code, out, errs := runHere(ctx, "serve", "-config", path); code != 0 {
			problem = fmt.Sprintf("serve ended with code %d: %s%s", code, out, errs)
		}
		ended <- problem
	}()
	p.stop = func() {
		if p.conn != nil {
			p.conn.Close()
		}
		cancel()
		if problem := <-ended; problem != "" {
			t.Error(problem)
		}
		p.stop = func() {}
	}
	t.Cleanup(func() { p.stop() })
	testenv.Await(t, "the daemon to answer", func() bool { _, err := statusOf(page); return err == nil || len(ended) > 0 })
	var err error
	if p.conn, err = nats.Connect(p.nats); err != nil {
		t.Fatal(err)
	}
	return p
}

// publish sends bytes, as a gateway in any language would.
func (p *daemonHere) publish(t *testing.T, subject string, data []byte) {
	t.Helper()
	if err := p.conn.Publish(subject, data); err != nil {
		t.Fatal(err)
	}
}

// settle waits until the stream has all published messages, the daemon has applied them, and the log has the
// decisions.
func (p *daemonHere) settle(t *testing.T) {
	t.Helper()
	sequence := testenv.StoredSequence(t, p.conn)
	testenv.Await(t, "the daemon to reach the end of the stream", func() bool {
		s, err := statusOf(strings.TrimPrefix(p.base, "http://"))
		return err == nil && s.Sequence >= sequence && testenv.Metric(t, p.base, "forewarm_log_waiting") == 0
	})
}
