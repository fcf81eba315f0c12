package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestFailedScriptRunsAgain: a failure is logged, and the renewed event runs the script again. After a success it does
// not. A new number stops a script that runs.
func TestFailedScriptRunsAgain(t *testing.T) {
	t.Parallel()
	url := testenv.StartNATS(t)
	conn := must(nats.Connect(url))
	defer conn.Close()
	js := must(conn.JetStream())
	must(js.AddStream(&nats.StreamConfig{Name: "SIGNALS", Subjects: []string{"forewarm.prescale.>"}}))
	answers := testenv.Subscribe(t, conn, "forewarm.prescale.ack.chat")

	dir := t.TempDir()
	calls, program := filepath.Join(dir, "calls"), filepath.Join(dir, "prescale")
	script := testenv.WriteFile(t, filepath.Join(dir, "scale.sh"), "#!/bin/sh", "echo $1 >> "+calls,
		`case "$(tail -n 1 `+calls+`)$(wc -l < `+calls+`)" in 31) exit 7 ;; 5*) exec sleep 60 ;; esac`)
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	logged := must(os.Create(filepath.Join(dir, "log")))
	cmd := exec.CommandContext(t.Context(), program, url, "chat", script)
	cmd.Stdout, cmd.Stderr = logged, logged
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()

	text := func(path string) string {
		content, _ := os.ReadFile(path) // it may not exist yet
		return strings.Join(strings.Fields(string(content)), " ")
	}
	publish := func(generation int64, replicas int) {
		event := alerting.Event{Data: alerting.Prescale{ID: fmt.Sprintf("chat-%d", generation), Generation: generation, Mode: alerting.Active,
			Action: alerting.ScaleOut, DesiredReplicas: replicas, ExpiresAt: time.Now().Add(time.Hour)}}
		must(js.Publish("forewarm.prescale.chat", must(json.Marshal(event))))
	}
	ready := func(id string) {
		t.Helper()
		if m, err := answers.NextMsg(testenv.Patience); err != nil || !strings.Contains(string(m.Data), `"event_id":"`+id+`","stage":"ready"`) {
			t.Fatalf("answer %v (%v), want that %s is ready; calls %q, log %q", m, err, id, text(calls), text(logged.Name()))
		}
	}
	publish(1, 3)
	testenv.Await(t, "the failure in the log", func() bool { return strings.Contains(text(logged.Name()), "scale.sh 3 failed: exit status 7") })
	must(js.Publish("forewarm.prescale.chat", []byte("{")))
	publish(2, 3)
	ready("chat-2")
	publish(3, 3) // it is done
	publish(4, 5)
	testenv.Await(t, "the script to wait for 5 replicas", func() bool { return text(calls) == "3 3 5" })
	publish(5, 6)
	ready("chat-5")
	publish(4, 5) // out of order
	publish(6, 7)
	ready("chat-6")
	if got := text(calls); got != "3 3 5 6 7" {
		t.Errorf("the script ran with %q, want 3 3 5 6 7", got)
	}
	if log := text(logged.Name()); strings.Count(log, "failed") != 1 || !strings.Contains(log, "not a pre-scale event") {
		t.Errorf("log %q, want one failure and one event that is none", log)
	}
}

// TestLostAcknowledgement: the script has done its part although the acknowledgement is not stored. It does not run
// again.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	url := testenv.StartNATS(t)
	conn := must(nats.Connect(url))
	defer conn.Close()
	js := must(conn.JetStream())
	must(js.AddStream(&nats.StreamConfig{Name: "SIGNALS", Subjects: []string{"forewarm.prescale.chat"}}))
	dir := t.TempDir()
	calls, program := filepath.Join(dir, "calls"), filepath.Join(dir, "prescale")
	script := testenv.WriteFile(t, filepath.Join(dir, "scale.sh"), "#!/bin/sh", "echo $1 >> "+calls)
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	logged := must(os.Create(filepath.Join(dir, "log")))
	cmd := exec.CommandContext(t.Context(), program, url, "chat", script)
	cmd.Stderr = logged
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	text := func(path string) string {
		content, _ := os.ReadFile(path) // it may not exist yet
		return string(content)
	}
	for i, replicas := range []int{3, 3, 4} {
		event := alerting.Event{Data: alerting.Prescale{ID: fmt.Sprintf("chat-%d", i), Generation: int64(i + 1), Mode: alerting.Active,
			Action: alerting.ScaleOut, DesiredReplicas: replicas, ExpiresAt: time.Now().Add(time.Hour)}}
		must(js.Publish("forewarm.prescale.chat", must(json.Marshal(event))))
		if i == 0 {
			testenv.Await(t, "the loss in the log", func() bool { return strings.Contains(text(logged.Name()), "nats: no ") })
		}
	}
	testenv.Await(t, "the second number", func() bool { return strings.Contains(text(calls), "4") })
	if got := text(calls); got != "3\n4\n" || strings.Contains(text(logged.Name()), "failed") || !strings.Contains(text(logged.Name()), "acknowledgement: ") {
		t.Errorf("the script ran with %q, log %q", got, text(logged.Name()))
	}
}
