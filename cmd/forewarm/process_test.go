package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forewarm/forewarm/internal/testenv"
)

// binaryDir has the program that tests run as a process. It is "" before the program is built.
var binaryDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if binaryDir != "" {
		_ = os.RemoveAll(binaryDir)
	}
	os.Exit(code)
}

// program builds the program once, without the race detector, which would make it ten times slower. Tests that run the
// daemon in the test's process find races.
var program = sync.OnceValues(func() (path string, err error) {
	if binaryDir, err = os.MkdirTemp("", "forewarm-test-"); err != nil {
		return "", err
	}
	return filepath.Join(binaryDir, "forewarm"), build(filepath.Join(binaryDir, "forewarm"))
})

func build(path string, flags ...string) error {
	if out, err := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), ".")...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// buildWith builds the program with other contents of some files, by path. It returns the path of the program.
func buildWith(t *testing.T, replaced map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for path, content := range replaced {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, fmt.Sprintf("%d_%s", len(overlay.Replace), filepath.Base(path)))
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = file
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "forewarm")
	if err := build(program, "-overlay", testenv.WriteFile(t, filepath.Join(dir, "overlay.json"), string(text))); err != nil {
		t.Fatal(err)
	}
	return program
}

// process is a running forewarm.
type process struct {
	cmd    *exec.Cmd
	out    output
	exited chan struct{}
	code   int // valid once exited is closed; -1 when a signal ended it
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, path, args...)
}

func startProgram(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its error is in the exit code
		p.code = p.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() { <-p.exited })
	return p
}

// kill sends SIGKILL. It fails the test if the process has exited before.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if p.over() {
		t.Fatalf("%q ended before it was killed, with code %d:\n%s", p.cmd.Args[1:], p.code, p.out.String())
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// stop sends SIGTERM, and waits for exit code 0.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.wait(t)
}

// wait waits for exit code 0.
func (p *process) wait(t *testing.T) {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(testenv.Patience):
		t.Fatalf("%q does not end:\n%s", p.cmd.Args[1:], p.out.String())
	}
	if p.code != 0 {
		t.Fatalf("%q ended with code %d:\n%s", p.cmd.Args[1:], p.code, p.out.String())
	}
}

// over reports whether the process has exited.
func (p *process) over() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// output is a buffer that several goroutines share.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// runHere runs a command in the test's process.
func runHere(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, streams{out: &out, err: &errs})
	return code, out.String(), errs.String()
}

// daemonStatus is the part of /api/v1/status that tests wait for.
type daemonStatus struct {
	Sequence uint64  `json:"stream_sequence"`
	Lag      *uint64 `json:"stream_lag_messages"`
	Tick     *time.Time
}

func statusOf(address string) (s daemonStatus, err error) {
	code, body := testenv.Get("http://" + address + "/api/v1/status")
	if code != http.StatusOK {
		return s, errors.New("the daemon does not answer")
	}
	return s, json.Unmarshal([]byte(body), &s)
}
