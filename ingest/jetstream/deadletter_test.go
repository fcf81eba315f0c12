package jetstream

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/ingest"
)

func TestDeadLetter(t *testing.T) {
	_, js := testServer(t)
	letters := must(js.Conn().SubscribeSync("forewarm.deadletter"))
	d := NewDeadLetter(js.Conn(), "forewarm")
	d.Send(7, []ingest.Refusal{
		{Reason: ingest.ReasonNotJSON, Detail: "at byte 0\r\nof 5"},
		{Reason: ingest.ReasonDuplicate, Detail: "seen"},
		{Reason: ingest.ReasonLate, Detail: "an hour late"},
	})
	for _, want := range []nats.Msg{
		{Header: nats.Header{HeaderReason: {"not_json"}, HeaderDetail: {"at byte 0  of 5"}, HeaderSequence: {"7"}}},
		{Header: nats.Header{HeaderReason: {"late"}, HeaderDetail: {"an hour late"}, HeaderSequence: {"7"}}},
	} {
		got := must(letters.NextMsgWithContext(testContext(t)))
		if d := cmp.Diff(want.Header, got.Header) + cmp.Diff(string(want.Data), string(got.Data)); d != "" {
			t.Error(d)
		}
	}
	if n, _, err := letters.Pending(); n != 0 || err != nil || d.Dropped.Load() != 0 {
		t.Errorf("%d more messages, %d dropped, %v", n, d.Dropped.Load(), err)
	}
}

// TestDeadLetterWithoutSequence: what a listener refuses is in no stream.
func TestDeadLetterWithoutSequence(t *testing.T) {
	_, js := testServer(t)
	letters := must(js.Conn().SubscribeSync("forewarm.deadletter"))
	NewDeadLetter(js.Conn(), "forewarm").Send(0, []ingest.Refusal{{Reason: ingest.ReasonLate, Detail: "an hour late"}})
	got := must(letters.NextMsgWithContext(testContext(t)))
	if d := cmp.Diff(nats.Header{HeaderReason: {"late"}, HeaderDetail: {"an hour late"}}, got.Header); d != "" {
		t.Error(d)
	}
}

func TestDeadLettersAreBounded(t *testing.T) {
	_, js := testServer(t)
	d := NewDeadLetter(js.Conn(), "forewarm")
	refused := make([]ingest.Refusal, 10+maxLetters+5)
	for i := range 10 {
		refused[i].Reason = ingest.ReasonDuplicate
	}
	if d.Send(1, refused); d.Dropped.Load() != 5 {
		t.Errorf("dropped %d, want 5", d.Dropped.Load())
	}
	js.Conn().Close()
	d.Send(2, make([]ingest.Refusal, 1))
	if d.Dropped.Load() != 6 {
		t.Errorf("without a connection: dropped %d, want 6", d.Dropped.Load())
	}
}
