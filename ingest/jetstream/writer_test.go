package jetstream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// TestStreamWriterKeepsOrder stores a batch that is too large for one message, and reads the same batch back.
func TestStreamWriterKeepsOrder(t *testing.T) {
	c, js := testServer(t)
	stream := telemetry(t, js, c)
	at := time.UnixMilli(1795240800000).UTC()
	b := &ingest.Batch{Source: "gateway-0", Watermark: &ingest.Watermark{Pool: "p", At: at}}
	for i := range 5000 {
		b.Requests = append(b.Requests, ingest.Request{
			ID: fmt.Sprintf("%s-%d", strings.Repeat("x", 200), i), Pool: "p", Attempt: 1, ArrivedAt: at,
			PromptTokens: 1, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
		})
	}
	b.Replicas = []ingest.Replica{{Pool: "p", Name: "r", At: at, KVUsedRatio: 0.5}}
	if err := NewStreamWriter(js, c.Prefix).Store(testContext(t), b); err != nil {
		t.Fatal(err)
	}
	var got ingest.Batch
	info := must(stream.Info(testContext(t)))
	for sequence := uint64(1); sequence <= info.State.LastSeq; sequence++ {
		m := must(stream.GetMsg(testContext(t), sequence))
		if len(m.Data) > 512<<10 || m.Header.Get(jetstream.MsgIDHeader) == "" {
			t.Errorf("message %d has %d bytes, headers %v", sequence, len(m.Data), m.Header)
		}
		about, _ := codec.ParseSubject(c.Prefix, m.Subject)
		about.ContentType, about.Source = m.Header.Get("Content-Type"), m.Header.Get(codec.HeaderSource)
		codec.Decode(about, m.Data, ingest.DefaultLimits(), &got)
	}
	if info.State.LastSeq < 2 {
		t.Errorf("%d messages, want several", info.State.LastSeq)
	}
	if d := cmp.Diff(b, &got, cmpopts.IgnoreUnexported(ingest.Batch{})); d != "" {
		t.Errorf("(-stored +read):\n%.2000s", d)
	}
}

func TestStreamWriterGivesUp(t *testing.T) {
	c, js := testServer(t)
	b := &ingest.Batch{Replicas: []ingest.Replica{{Pool: "p", Name: "r", At: time.UnixMilli(1795240800000)}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	wantError(t, NewStreamWriter(js, c.Prefix).Store(ctx, b), "publish to forewarm.telemetry.request._._") // no stream
	js.Conn().Close()
	wantError(t, NewStreamWriter(js, c.Prefix).Store(t.Context(), b), "disconnected")
}
