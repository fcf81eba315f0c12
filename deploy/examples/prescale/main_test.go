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

// example is a running example whose script appends its argument to a file.
type example struct {
	js            nats.JetStreamContext
	conn          *nats.Conn
	calls, logged string // files
}

// start runs the example on a NATS server with one stream of these subjects. The script goes on with more.
func start(t *testing.T, subjects string, more string) *example {
	t.Helper()
	url, dir := testenv.StartNATS(t), t.TempDir()
	conn := must(nats.Connect(url))
	t.Cleanup(conn.Close)
	x := &example{conn: conn, js: must(conn.JetStream()), calls: filepath.Join(dir, "calls"), logged: filepath.Join(dir, "log")}
	must(x.js.AddStream(&nats.StreamConfig{Name: "SIGNALS", Subjects: []string{subjects}}))
	script := testenv.WriteFile(t, filepath.Join(dir, "scale.sh"), "#!/bin/sh", "calls="+x.calls, "echo $1 >> $calls", more)
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "prescale")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	log := must(os.Create(x.logged))
	cmd := exec.CommandContext(t.Context(), program, url, "chat", script)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return x
}

// publish publishes an event that wants so many replicas.
func (x *example) publish(generation int64, replicas int) {
	event := alerting.Event{Data: alerting.Prescale{ID: fmt.Sprintf("chat-%d", generation), Generation: generation, Mode: alerting.Active,
		Action: alerting.ScaleOut, DesiredReplicas: replicas, ExpiresAt: time.Now().Add(time.Hour)}}
	must(x.js.Publish("forewarm.prescale.chat", must(json.Marshal(event))))
}

// text is the content of a file, with single spaces; "" while it does not exist.
func text(path string) string {
	content, _ := os.ReadFile(path)
	return strings.Join(strings.Fields(string(content)), " ")
}

// TestFailedScriptRunsAgain: a failure is logged, and the renewed event runs the script again. After a success it does
// not. A new number stops a script that runs.
func TestFailedScriptRunsAgain(t *testing.T) {
	t.Parallel()
	x := start(t, "forewarm.prescale.>", `case "$(tail -n 1 $calls)$(wc -l < $calls)" in 31) echo no room; exit 7 ;; 5*) exec sleep 60 ;; esac`)
	acks := testenv.Subscribe(t, x.conn, "forewarm.prescale.ack.chat")
	ready := func(id string) {
		t.Helper()
		if m, err := acks.NextMsg(testenv.Patience); err != nil || !strings.Contains(string(m.Data), `"event_id":"`+id+`","stage":"ready"`) {
			t.Fatalf("answer %v (%v), want that %s is ready; calls %q, log %q", m, err, id, text(x.calls), text(x.logged))
		}
	}
	x.publish(1, 3)
	testenv.Await(t, "the failure in the log", func() bool { return strings.Contains(text(x.logged), "scale.sh 3 failed: exit status 7") })
	must(x.js.Publish("forewarm.prescale.chat", []byte("{")))
	x.publish(2, 3)
	ready("chat-2")
	x.publish(3, 3) // it is done
	x.publish(4, 5)
	testenv.Await(t, "the script to wait for 5 replicas", func() bool { return text(x.calls) == "3 3 5" })
	x.publish(5, 6)
	ready("chat-5")
	x.publish(4, 5) // out of order
	x.publish(6, 7)
	ready("chat-6")
	if got := text(x.calls); got != "3 3 5 6 7" {
		t.Errorf("the script ran with %q, want 3 3 5 6 7", got)
	}
	if log := text(x.logged); strings.Count(log, "failed") != 1 || !strings.Contains(log, "not a pre-scale event") || !strings.HasPrefix(log, "no room") {
		t.Errorf("log %q, want what the script printed, one failure and one event that is none", log)
	}
}

// TestLostAcknowledgement: the script has done its part although the acknowledgement is not stored. It does not run
// again.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	x := start(t, "forewarm.prescale.chat", "") // acknowledgements are in no stream
	x.publish(1, 3)
	testenv.Await(t, "the loss in the log", func() bool { return strings.Contains(text(x.logged), "nats: no ") })
	x.publish(2, 3)
	x.publish(3, 4)
	testenv.Await(t, "the second number", func() bool { return strings.Contains(text(x.calls), "4") })
	if got := text(x.calls); got != "3 4" || strings.Contains(text(x.logged), "failed") || !strings.Contains(text(x.logged), "acknowledgement: ") {
		t.Errorf("the script ran with %q, log %q", got, text(x.logged))
	}
}
