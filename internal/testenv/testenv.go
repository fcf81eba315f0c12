// Package testenv finds the real parts that tests run against: programs, file systems, addresses.
package testenv

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Missing skips a test that lacks a part, and says how to get it; in CI, which has FOREWARM_CI=1 and must have them all, the
// test fails.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("FOREWARM_CI") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Await polls until done, for what another process or goroutine brings about. After two minutes it ends the test and says what it
// waited for.
func Await(t testing.TB, what string, done func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(2 * time.Minute)
	for !done() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("waited two minutes for %s", what)
		}
	}
}

// Program is the path of a program under the first of its names that is installed. The test is [Missing] it where there is
// none; debian is the package that has it.
func Program(t testing.TB, debian string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, "no %s to test with; install %s", names[0], debian)
	return ""
}

// Alertmanager is Debian's Alertmanager, or the one that is called as its authors call it.
func Alertmanager(t testing.TB) string {
	t.Helper()
	return Program(t, "prometheus-alertmanager", "prometheus-alertmanager", "alertmanager")
}

// FreeAddress is a loopback address that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// LintMetrics has Prometheus' own tool read and lint an exposition. It may find fault with what the metrics library names by
// itself, and with nothing else.
func LintMetrics(t testing.TB, exposition string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Program(t, "prometheus", "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(exposition)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 3) { // 3: read, and found fault with
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "go_") && !strings.HasPrefix(line, "process_") {
			t.Error(strings.TrimSpace(line))
		}
	}
}
