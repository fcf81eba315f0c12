package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
)

var benchDay = flag.Int("day", 1440, "`minutes` of traffic for the daemon of ten thousand classes")

// daemonMemory sends the traffic of ten thousand classes over a day to a daemon in its own process, with its NATS
// server. Then it restarts the daemon from the saved state.
func (b *bench) daemonMemory() []row {
	const classes = 10_000
	s := &site{config: filepath.Join(b.t.TempDir(), "forewarm.yaml"), data: filepath.Join(b.t.TempDir(), "data"), nats: testenv.FreeAddress(b.t), http: testenv.FreeAddress(b.t)}
	testenv.WriteFile(b.t, s.config, "nats: {embedded: {listen: "+s.nats+"}, stream: {max_bytes: 268435456}}",
		"clock: event",
		fmt.Sprintf("features: {max_classes: %d}", classes),
		"storage: {dir: "+s.data+", snapshot_every: 10s}",
		"server: {listen: "+s.http+"}",
		"log: {level: warn}",
		"pools:",
		"  - {name: chat, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 4000}}")
	daemon := start(b.t, "serve", "-config", s.config)
	testenv.Await(b.t, "the daemon to answer", func() bool { _, err := statusOf(s.http); return err == nil || daemon.over() })
	publisher, err := jetstream.NewPublisher(b.connect("nats://" + s.nats))
	b.check(err)
	sent := uint64(0)
	for m := range *benchDay {
		sent = b.sendMinute(publisher, m, classes, sent)
		// The stream is small: the daemon must read a message before newer ones replace it.
		testenv.Await(b.t, "the daemon to catch up", func() bool {
			st, err := statusOf(s.http)
			return daemon.over() || err == nil && st.Sequence+400 >= sent
		})
		if daemon.over() {
			b.t.Fatal(daemon.out.String())
		}
		if m%60 == 59 {
			b.t.Logf("minute %d: %s", m+1, memoryOf(daemon))
		}
	}
	after := memoryOf(daemon)
	metrics := metricsOf(s.http)
	daemon.stop(b.t)
	daemon = start(b.t, "serve", "-config", s.config)
	testenv.Await(b.t, "the daemon to be restored", func() bool { _, err := statusOf(s.http); return err == nil || daemon.over() })
	restored := memoryOf(daemon)
	daemon.stop(b.t)
	stops := metrics["forewarm_snapshot_stop_duration_seconds_count"]
	return []row{
		{fmt.Sprintf("Resident memory of the daemon, NATS server included, after %d minutes of %d active classes", *benchDay, classes), after.String(), "< 1024 MiB"},
		{"The same after a restart from its snapshot of " + fmt.Sprintf("%.0f MiB", metrics["forewarm_snapshot_bytes"]/(1<<20)), restored.String(), "< 1024 MiB"},
		{"Time that the pipeline waits for a snapshot", fmt.Sprintf("%.0f ms, and %.0f ms until it is stored, mean of %.0f; longest within %s",
			1e3*metrics["forewarm_snapshot_stop_duration_seconds_sum"]/stops,
			1e3*metrics["forewarm_snapshot_duration_seconds_sum"]/metrics["forewarm_snapshot_duration_seconds_count"], stops, longest(metrics, stops)), "< 2 s"},
	}
}

// sendMinute stores a minute of two requests of each class, and returns the number of messages so far.
func (b *bench) sendMinute(publisher *jetstream.Publisher, m, classes int, sent uint64) uint64 {
	const perMinute, perBatch = 2, 250
	start := benchStart.Add(time.Duration(m) * time.Minute)
	batch := ingest.Batch{}
	for i := range classes * perMinute {
		at := start.Add(time.Duration(i) * 59 * time.Second / time.Duration(classes*perMinute))
		batch.Requests = append(batch.Requests, ingest.Request{
			ID: fmt.Sprintf("%d-%d", m, i), Pool: "chat", Class: fmt.Sprint("class-", i%classes), Tenant: fmt.Sprint("tenant-", (i*31+m)%1000), Attempt: 1,
			ArrivedAt: at, StartedAt: at.Add(30 * time.Millisecond), FirstTokenAt: at.Add(400 * time.Millisecond), FinishedAt: at.Add(9 * time.Second),
			PromptTokens: int64(200 + (i*31+m)%4000), CachedTokens: int64((i*17 + m) % 200), OutputTokens: int64(20 + (i*13+m)%700), MaxOutputTokens: ingest.Unknown,
		})
		if len(batch.Requests) == perBatch {
			b.check(publisher.Publish(context.Background(), "forewarm.telemetry.request.chat", fmt.Sprintf("%d-%d", m, i), &batch))
			batch.Requests = batch.Requests[:0]
			sent++
		}
	}
	return sent
}

// memory is the resident memory of a process and its peak, in MiB.
type memory struct{ now, most float64 }

func (m memory) String() string { return fmt.Sprintf("%.0f MiB, %.0f at most", m.now, m.most) }

func memoryOf(p *process) (m memory) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)) // there is no such file on other systems than Linux
	for line := range strings.Lines(string(b)) {
		for name, to := range map[string]*float64{"VmRSS:": &m.now, "VmHWM:": &m.most} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
				*to = n / 1024
			}
		}
	}
	return m
}

func metricsOf(address string) map[string]float64 {
	_, body := testenv.Get("http://" + address + "/metrics")
	out := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			out[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return out
}

// longest returns the upper bound of the histogram bucket with the longest stop.
func longest(metrics map[string]float64, stops float64) string {
	bounds := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30} // of the metric
	for _, bound := range bounds {
		if metrics[fmt.Sprintf("forewarm_snapshot_stop_duration_seconds_bucket{le=%q}", strconv.FormatFloat(bound, 'g', -1, 64))] == stops {
			return fmt.Sprintf("%.0f ms", 1e3*bound)
		}
	}
	return "more than 30 s"
}
