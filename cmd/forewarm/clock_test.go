package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/storage/stream"
)

// TestClockJumps sets a daemon's clock ten minutes ahead, then ten minutes behind, then right again, while telemetry
// goes on. The clock of the NATS server does not change. Each minute has a decision, and none says that telemetry is
// stale. The program is built with a time.Now that signals can shift.
func TestClockJumps(t *testing.T) {
	if os.Getenv("FOREWARM_KILLS") == "" {
		t.Skip("set FOREWARM_KILLS for this test, which takes eight minutes")
	}
	program := buildWith(t, map[string]string{
		timeSource(t): shiftedTime(t),
		"shift.go": `package main

import ("os"; "os/signal"; "syscall"; "time")

func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range signals {
			if s == syscall.SIGUSR1 { time.Shift += 600 } else { time.Shift -= 600 }
		}
	}()
}
`})
	url, http, dir := testenv.StartNATS(t), testenv.FreeAddress(t), t.TempDir()
	config := testenv.WriteFile(t, filepath.Join(dir, "forewarm.yaml"), "nats: {url: '"+url+"', stream: {max_bytes: 67108864}, decisions: {max_bytes: 67108864}}",
		"features: {lateness: 2s}", "log: {level: warn}", "storage: {dir: "+filepath.Join(dir, "data")+"}", "server: {listen: "+http+"}",
		"pools:", "  - {name: fleet, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 40}}")
	daemon := startProgram(t, program, "serve", "-config", config)
	t.Cleanup(func() { _ = daemon.cmd.Process.Kill() })
	testenv.Await(t, "the daemon to answer", func() bool { _, err := statusOf(http); return err == nil || daemon.over() })
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	begin := time.Now()
	jumps := map[int]syscall.Signal{150: syscall.SIGUSR1, 270: syscall.SIGUSR2, 271: syscall.SIGUSR2, 390: syscall.SIGUSR1}
	for second := range 480 {
		if by, ok := jumps[second]; ok {
			if err := daemon.cmd.Process.Signal(by); err != nil {
				t.Fatal(err)
			}
		}
		if second == 200 {
			if _, ready := testenv.Get("http://" + http + "/readyz"); !strings.Contains(ready, "clock of the NATS server is -10m0s from this machine's") {
				t.Errorf("the daemon's clock is ten minutes ahead, and /readyz does not say so:\n%s", ready)
			}
		}
		line := fmt.Sprintf(`{"arrived_at":%d,"prompt_tokens":500,"output_tokens":300}`, time.Now().UnixMilli())
		if err := conn.Publish("forewarm.telemetry.request.fleet.chat", []byte(line)); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Until(begin.Add(time.Duration(second+1) * time.Second)))
	}
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	minutes := map[time.Time]bool{}
	err = stream.NewReader(js, "FOREWARM_DECISIONS", "forewarm").Decisions(t.Context(), begin.Add(-time.Minute), begin.Add(time.Hour), func(d *alerting.Decision) error {
		if minutes[d.Tick] = true; d.Stale {
			t.Errorf("%s: %s", d.Tick, d.Reason)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for m := begin.Truncate(time.Minute).Add(time.Minute); m.Before(begin.Add(478 * time.Second)); m = m.Add(time.Minute) {
		if !minutes[m.UTC()] {
			t.Errorf("%s has no decision; these minutes have one: %v", m, minutes)
		}
	}
	t.Logf("%d minutes have a decision; the daemon printed:\n%s", len(minutes), daemon.out.String())
}

// timeSource returns the path of the file with time.Now.
func timeSource(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src/time/time.go")
}

// shiftedTime returns this file with a clock that is Shift seconds ahead.
func shiftedTime(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(timeSource(t))
	if err != nil {
		t.Fatal(err)
	}
	read := []byte("	sec, nsec, mono := runtimeNow()\n	if mono == 0 {")
	if !bytes.Contains(source, read) {
		t.Fatal("time.Now has changed: this test must follow it")
	}
	return string(bytes.Replace(source, read, []byte("	sec, nsec, mono := runtimeNow()\n	sec += Shift\n	if mono == 0 {"), 1)) + "\n// Shift is added to the clock, in seconds.\nvar Shift int64\n"
}
