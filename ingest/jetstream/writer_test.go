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

// TestStreamWriterKeepsOrder stores a batch that is too large for one message, and reads it back as it was.
func TestStreamWriterKeepsOrder(t *testing.T) {
	c, js := testServer(t)
	stream := telemetry(t, js, c)
	at := time.UnixMilli(1795240800000).UTC()
	b := &ingest.Batch{Source: "gateway-0", Sums: []ingest.Sum{{Pool: "p", Start: at, Requests: 3, PromptTokens: 4, CachedTokens: 1, OutputTokens: 2}}}
	for i := range 5000 {
		b.Requests = append(b.Requests, ingest.Request{
			ID: fmt.Sprintf("%s-%d", strings.Repeat("x", 200), i), Pool: "p", Attempt: 1, ArrivedAt: at,
			PromptTokens: 1, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
		})
	}
	if err := NewStreamWriter(js, &c).Store(testContext(t), b); err != nil {
		t.Fatal(err)
	}
	var got ingest.Batch
	info, err := stream.Info(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for sequence := uint64(1); sequence <= info.State.LastSeq; sequence++ {
		m, err := stream.GetMsg(testContext(t), sequence)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Data) > writerBytes || m.Header.Get(jetstream.MsgIDHeader) == "" {
			t.Errorf("message %d has %d bytes, headers %v", sequence, len(m.Data), m.Header)
		}
		about, _ := codec.ParseSubject(c.Prefix, m.Subject)
		addHeaders(&about, m.Header)
		codec.Decode(about, m.Data, ingest.DefaultLimits(), &got)
	}
	if info.State.LastSeq < 3 {
		t.Errorf("%d messages, want several", info.State.LastSeq)
	}
	if d := cmp.Diff(b, &got, cmpopts.IgnoreUnexported(ingest.Batch{})); d != "" {
		t.Errorf("(-stored +read):\n%.2000s", d)
	}
}

func TestStreamWriterGivesUp(t *testing.T) {
	c, js := testServer(t)
	b := &ingest.Batch{Requests: []ingest.Request{{Pool: "p", ArrivedAt: time.UnixMilli(1795240800000)}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	wantError(t, NewStreamWriter(js, &c).Store(ctx, b), "publish to forewarm.telemetry.request._._") // there is no stream
	js.Conn().Close()
	wantError(t, NewStreamWriter(js, &c).Store(t.Context(), b), "disconnected")
}
