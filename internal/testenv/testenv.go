// Package testenv finds the real parts that tests run against: programs, file systems, addresses.
package testenv

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Missing skips a test that lacks a part, and says how to get it. CI sets FOREWARM_CI=1 and must have all parts: there
// the test fails.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("FOREWARM_CI") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Await polls until done, for the work of another process or goroutine. After two minutes it ends the test and says
// what it waited for.
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

// Program is the path of a program, under the first of its names that is installed. Without one the test is [Missing]
// it. debian is the package that has it.
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

// FreeAddress is a loopback address that nobody listens on. Its port is below those that the system gives to clients
// and to port 0. A listener at the port 10,000 above reserves it until the test ends, so that no other process of the
// tests gets it, and so that it stays free while a daemon restarts.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(10_000)
		reservation, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10_000))
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			t.Cleanup(func() { _ = reservation.Close() })
			_ = l.Close()
			return l.Addr().String()
		}
		_ = reservation.Close()
	}
	t.Fatal("no free port was found")
	return ""
}

// LintMetrics runs promtool's linter on an exposition. Faults of names that the metrics library chooses are ignored.
func LintMetrics(t testing.TB, exposition string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Program(t, "prometheus", "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(exposition)
	out, err := cmd.CombinedOutput() // an error is of faults, which are lines of out
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "go_") && !strings.HasPrefix(line, "process_") {
			t.Error(strings.TrimSpace(line))
		}
	}
}

// Patience bounds every wait for something outside the test; none comes near it.
const Patience = time.Minute

// Get reads a page; code is 0 while nobody answers.
func Get(url string) (code int, body string) {
	res, err := http.Get(url)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		return 0, ""
	}
	return res.StatusCode, b.String()
}

// WriteFile writes lines to a new file of the test's directory.
func WriteFile(t testing.TB, path string, lines ...string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(fmt.Errorf("test file: %w", err))
	}
	return path
}

// Metric reads one value from the /metrics at a base URL, 0 when it is not there.
func Metric(t testing.TB, base, name string) float64 {
	t.Helper()
	_, body := Get(base + "/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return 0
}

// Words are what people read of an alert.
func Words(annotations map[string]string) string {
	return annotations["summary"] + "\n" + annotations["description"] + "\n=> " + annotations["action"]
}
