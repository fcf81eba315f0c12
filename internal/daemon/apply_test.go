package daemon

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/pipeline"
)

// TestTickBeforeStoring: the advice of a tick has its age before the series are stored, which may take long.
func TestTickBeforeStoring(t *testing.T) {
	d := must(newDaemon(t, t.TempDir(), "nats: {embedded: {listen: '127.0.0.1:0'}}", "clock: event", "features: {lateness: 0s}",
		"pools: [{name: chat, decode_tokens_per_s: 100, replicas: {max: 9}}]"))
	if err := d.store.Close(); err != nil { // so that the first tick is not stored, which is logged
		t.Fatal(err)
	}
	var lost, dated atomic.Bool
	core, _ := observer.New(zap.ErrorLevel)
	d.log = zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "series of a tick are lost" && !lost.Load() {
			dated.Store(len(d.Pools()) > 0 && !d.Status().TickedAt.IsZero())
			lost.Store(true)
		}
		return nil
	}))
	p := runDaemon(t, d)
	for m := range 3 {
		p.publishMinute(t, "chat.talk", time.Date(2026, 3, 2, 8, m, 0, 0, time.UTC), 30, 500, 400)
	}
	testenv.Await(t, "a tick that is not stored", lost.Load)
	if !dated.Load() {
		t.Errorf("while a tick is stored, its decision is shown and has no age")
	}
}

// TestOldDecisionHasNoGauges: after an outage the newest minutes of the stream may be hours old. What is decided for them
// is no advice any more. The event clock has no relation to the clock of the machine. A tick is due features.lateness after
// its minute, so its gauges are new then.
func TestOldDecisionHasNoGauges(t *testing.T) {
	for _, tt := range []struct {
		clock string
		age   time.Duration
		want  bool
	}{
		{"wall", time.Hour, false},
		{"wall", 10 * time.Minute, true},
		{"event", time.Hour, true},
	} {
		d := must(newDaemon(t, t.TempDir(), "nats: {embedded: {listen: '127.0.0.1:0'}}", "clock: "+tt.clock,
			"features: {lateness: 10m}", "server: {listen: '127.0.0.1:0'}", "pools: [{name: chat, replicas: {max: 9}}]"))
		pool := pipeline.PoolOutput{Pool: "chat", Forecast: forecaster.PoolForecast{Pool: "chat"}}
		d.emit(&pipeline.Output{Tick: time.Now().Add(-tt.age), Pools: []pipeline.PoolOutput{pool}})
		var text strings.Builder
		d.exporter.WritePrometheus(&text)
		if got := strings.Contains(text.String(), "forewarm_pool_stale"); got != tt.want {
			t.Errorf("clock %s: gauges of a decision that is %s old: %v, want %v", tt.clock, tt.age, got, tt.want)
		}
		if fresh := d.Status().Behind < 15*time.Minute; fresh != tt.want {
			t.Errorf("clock %s: the advice is %s old", tt.clock, d.Status().Behind)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
