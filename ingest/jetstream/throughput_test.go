package jetstream

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/ingest"
)

// BenchmarkStream publishes b.N messages with one request each, and then reads them back.
func BenchmarkStream(b *testing.B) {
	ctx := b.Context()
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: listenNone, StoreDir: b.TempDir()}
	server := must(StartEmbedded(ctx, c, nop))
	defer server.Shutdown()
	conn := must(Connect(c, server))
	defer conn.Close()
	js := must(jetstream.New(conn))
	if _, err := EnsureTelemetry(ctx, js, c); err != nil {
		b.Fatal(err)
	}
	publisher := must(NewPublisher(conn))

	b.ResetTimer()
	for i := range b.N {
		if err := publisher.Publish(ctx, "forewarm.telemetry.request.p.c", strconv.Itoa(i), "", numbered(i)); err != nil {
			b.Fatal(err)
		}
	}
	published := b.Elapsed()
	handled := 0
	_ = NewConsumer(js, consumerOf(js, c, 1)).Run(ctx, each(func(*ingest.Batch) error {
		if handled++; handled == b.N {
			return errEnough
		}
		return nil
	}))
	b.ReportMetric(float64(b.N)/published.Seconds(), "published/s")
	b.ReportMetric(float64(b.N)/(b.Elapsed()-published).Seconds(), "read/s")
}
