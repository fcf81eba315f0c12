// Package testenv provides the real programs, file systems and addresses that tests run against.
package testenv

import (
	"fmt"
	"io"
	"math"
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

// Missing skips a test for which a part of its environment is missing. The message says how to get that part. With
// FOREWARM_CI=1 the test fails instead, because CI must have all parts.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("FOREWARM_CI") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Await polls until done returns true. It is for the work of another process or goroutine. After two minutes it fails
// the test and says what it waited for.
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

// Program returns the path of the first of these programs that is installed. If none is, it calls [Missing]. debian is
// the Debian package that has the program.
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

// FreeAddress returns a loopback address that nobody listens on. Its port is below those that the system gives to
// clients and to port 0. A listener at the port 10,000 above reserves the address until the test ends. So no other test
// process gets it, and it stays free while a daemon restarts.
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

// Patience limits every wait for something outside the test. Usual waits are much shorter.
const Patience = time.Minute

// Get returns the status code and the body of a page. code is 0 if the server does not answer.
func Get(url string) (code int, body string) {
	res, err := http.Get(url)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(content)
}

// WriteFile writes lines to a file and returns its path.
func WriteFile(t testing.TB, path string, lines ...string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(fmt.Errorf("test file: %w", err))
	}
	return path
}

// Metric returns one value of /metrics at a base URL, or NaN if it is missing, which equals no expected value.
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
	return math.NaN()
}

// Words returns the text of an alert that people read.
func Words(annotations map[string]string) string {
	return annotations["summary"] + "\n" + annotations["description"] + "\n=> " + annotations["action"]
}
