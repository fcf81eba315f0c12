package daemon

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestRemoteWrite: a real Prometheus gets every stored sample, although it is stopped for some time and the daemon is
// restarted meanwhile.
func TestRemoteWrite(t *testing.T) {
	t.Parallel()
	receive := func(dir, address string) *testenv.Server {
		return testenv.StartPrometheus(t, nil, dir, address, "--web.enable-remote-write-receiver")
	}
	theirs := filepath.Join(t.TempDir(), "remote")
	receiver := receive(theirs, "")
	dir := t.TempDir()
	lines := []string{
		onePool, "clock: event", "log: {level: error}",
		"remote_write: {url: '" + receiver.URL + "/api/v1/write', labels: {cluster: eu}}",
	}
	p := startDaemonIn(t, dir, lines...)
	start := time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour)
	minutes := func(from, to int) {
		for m := from; m < to; m++ {
			at := start.Add(time.Duration(m) * time.Minute)
			sum := ingest.Sum{Start: at, Requests: 60, PromptTokens: 6e4, CachedTokens: math.NaN(), OutputTokens: 6e3}
			subject := ingest.Subject("forewarm", ingest.RequestSubject, "chat", "agent")
			p.publish(t, subject, codec.Append(nil, &sum), "Content-Type", codec.ContentTypeSum)
			p.publish(t, ingest.Subject("forewarm", ingest.WatermarkSubject, "chat"), codec.Append(nil, &ingest.Watermark{At: at.Add(time.Minute)}))
		}
		p.settle(t)
	}
	samples := func(base string) float64 {
		return testenv.Scalar(t, base, `sum(count_over_time(forewarm_forecast[3h])) + sum(count_over_time(forewarm_desired_replicas[3h]))`, start.Add(2*time.Hour))
	}
	alike := func() bool { return samples(receiver.URL) == samples(p.base) }

	minutes(0, 20)
	testenv.Await(t, "the receiver to have all samples", alike)
	receiver.Stop()
	minutes(20, 30)
	p.stop()
	p = startDaemonIn(t, dir, lines...)
	minutes(30, 40)
	if p.writer.Waiting() == 0 {
		t.Error("no sample waits while the receiver is stopped")
	}
	receiver = receive(theirs, receiver.URL[len("http://"):])
	testenv.Await(t, "the receiver to have the samples of the meantime", alike)
	if n := samples(p.base); n < 40*20 {
		t.Errorf("only %g samples are stored", n)
	}
	q := `max_over_time(forewarm_forecast{pool="chat",class="*",dimension="requests",horizon="15",quantile="0.95"}[3h])`
	if ours, their := testenv.Scalar(t, p.base, q, start.Add(2*time.Hour)), testenv.Scalar(t, receiver.URL, q, start.Add(2*time.Hour)); math.Abs(ours-their) > 1e-12*ours || ours == 0 { // VictoriaMetrics keeps 15 digits
		t.Errorf("the forecast is %g here and %g there", ours, their)
	}
	settled := start.Add(40*time.Minute - p.cfg.Features.Revise)
	if n := testenv.Scalar(t, receiver.URL, `count_over_time(forewarm_demand_requests_per_second{class="*"}[3h])`, settled); start.Add(time.Duration(n) * time.Minute).Before(settled) {
		t.Errorf("the receiver has %g minutes, want all up to %s, also those that settled after the restart", n, settled.Sub(start))
	}
	if testenv.Metric(t, p.base, "forewarm_remote_write_rejected_total") != 0 {
		t.Error("samples are counted as lost")
	}
}
