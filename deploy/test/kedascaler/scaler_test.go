// Package kedascaler tests Forewarm's external scaler with the scalers of KEDA's operator, which turn a trigger into
// the metric of a Horizontal Pod Autoscaler.
package kedascaler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
	v2 "k8s.io/api/autoscaling/v2"
)

const patience = 2 * time.Minute

// TestOperator runs the daemon as a process and asks it as the operator does: before there is telemetry, after two
// hours of load, and for a pool without telemetry.
func TestOperator(t *testing.T) {
	d := startDaemon(t)
	trigger := func(metadata ...string) *scalersconfig.ScalerConfig {
		c := &scalersconfig.ScalerConfig{
			ScalableObjectName: "chat", ScalableObjectNamespace: "llm", ScalableObjectType: "ScaledObject", MetricType: v2.AverageValueMetricType,
			TriggerMetadata: map[string]string{"scalerAddress": d.keda, "pool": "chat"},
		}
		for i := 0; i < len(metadata); i += 2 {
			c.TriggerMetadata[metadata[i]] = metadata[i+1]
		}
		return c
	}
	scaler := func(metadata ...string) (scalers.Scaler, string) {
		s, err := scalers.NewExternalScaler(trigger(metadata...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		specs := s.GetMetricSpecForScaling(t.Context())
		if len(specs) != 1 || specs[0].External == nil || specs[0].External.Target.Type != v2.AverageValueMetricType || specs[0].External.Target.AverageValue.Value() != 1 {
			t.Fatalf("specification %+v", specs)
		}
		return s, specs[0].External.Metric.Name
	}
	obeyed, metric := scaler()
	if values, active, err := obeyed.GetMetricsAndActivity(t.Context(), metric); err == nil {
		t.Errorf("before there is telemetry: %v, %t", values, active)
	}

	desired := d.replay(t)
	values, active, err := obeyed.GetMetricsAndActivity(t.Context(), metric)
	if err != nil || !active || len(values) != 1 || values[0].MetricName != metric || values[0].Value.Value() != int64(desired) {
		t.Errorf("%v, active %t, %v; the decision is %d", values, active, err, desired)
	}
	silent, name := scaler("pool", "batch")
	if values, active, err := silent.GetMetricsAndActivity(t.Context(), name); err == nil {
		t.Errorf("a pool without telemetry: %v, active %t", values, active)
	}

	push, err := scalers.NewExternalPushScaler(trigger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	pushed := make(chan bool)
	go push.Run(ctx, pushed)
	if active, open := <-pushed; !active || !open {
		t.Errorf("pushed: active %t, channel open %t", active, open)
	}
	stop()
	for range pushed { // until Run closes it
	}
	_ = push.Close(context.Background())
}

// daemon is a Forewarm process.
type daemon struct{ program, nats, http, keda string }

func startDaemon(t *testing.T) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{program: filepath.Join(dir, "forewarm"), nats: freeAddress(t), http: freeAddress(t), keda: freeAddress(t)}
	build := exec.Command("go", "build", "-o", d.program, "./cmd/forewarm")
	build.Dir, build.Env = os.Getenv("FOREWARM_SOURCE"), append(os.Environ(), "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	config := filepath.Join(dir, "forewarm.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `
clock: event
storage: {dir: %s/data}
server: {listen: %q}
nats: {embedded: {listen: %q}}
keda: {listen: %q}
pools: [{name: chat, mode: active, decode_tokens_per_s: 400, replicas: {min: 1, max: 9}}, {name: batch, decode_tokens_per_s: 400, replicas: {max: 9}}]
`, dir, d.http, d.nats, d.keda), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	serve := exec.Command(d.program, "serve", "-config", config)
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil || t.Failed() {
			t.Errorf("serve: %v\n%s", err, log.String())
		}
	})
	await(t, "the daemon to be alive", func() bool { return d.fetch("/healthz", nil) == nil })
	return d
}

// nearlyAll is ten minutes before the end of the replayed trace, which begins with 2024 by default. A lag of 0 may be
// that from before the replay.
var nearlyAll = time.Date(2024, 1, 1, 1, 50, 0, 0, time.UTC)

// replay publishes two hours of load that needs several replicas, and returns the desired replicas.
func (d *daemon) replay(t *testing.T) (desired int) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace.csv")
	rows := bytes.NewBufferString("t_s,class,prompt_tokens,cached_tokens,output_tokens\n")
	for at := 0; at < 7200; at++ {
		fmt.Fprintf(rows, "%d,talk,500,0,%d\n", at, 900+at%200)
	}
	if err := os.WriteFile(trace, rows.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(d.program, "replay", "-nats", "nats://"+d.nats, "-pool", "chat", "-batch", "100", trace).CombinedOutput(); err != nil {
		t.Fatalf("replay: %v\n%s", err, out)
	}
	var status struct {
		Lag  *int `json:"stream_lag_messages"`
		Tick time.Time
	}
	await(t, "the telemetry to be counted", func() bool {
		return d.fetch("/api/v1/status", &status) == nil && status.Lag != nil && *status.Lag == 0 && status.Tick.After(nearlyAll)
	})
	var answer struct {
		Desired int `json:"desired_replicas"`
	}
	if err := d.fetch("/api/v1/pools/chat/desired", &answer); err != nil || answer.Desired < 2 {
		t.Fatalf("%d replicas desired, %v", answer.Desired, err)
	}
	return answer.Desired
}

// fetch decodes a JSON answer into into, unless that is nil.
func (d *daemon) fetch(path string, into any) error {
	res, err := http.Get("http://" + d.http + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", res.Status, body)
	case into == nil:
		return nil
	}
	return json.Unmarshal(body, into)
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for end := time.After(patience); !done(); {
		select {
		case <-end:
			t.Fatalf("waited %s for %s", patience, what)
		case <-poll.C:
		}
	}
}

// ports are tried in this order, each once. They are below those that the system gives to clients.
var ports = rand.Perm(20_000)

// freeAddress returns a loopback address on which nothing listens, a different one each time.
func freeAddress(t *testing.T) string {
	t.Helper()
	for len(ports) > 0 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+ports[0])
		ports = ports[1:]
		if l, err := net.Listen("tcp", address); err == nil {
			defer l.Close()
			return address
		}
	}
	t.Fatal("no free port was found")
	return ""
}
