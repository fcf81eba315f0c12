package stream

import (
	"errors"
	"testing"
)

// TestExplainReadsOnePool: events and evidence are found by reading their pool alone. So a message of another pool that
// cannot be read does not matter.
func TestExplainReadsOnePool(t *testing.T) {
	js, _ := serve(t)
	a := write(t, js, "a")
	a.tick(t, 1, 3, "chat", "code-7")
	must(js.Publish(t.Context(), "forewarm.decision.code-7", []byte("no decision")))
	for minute := 2; minute < 5; minute++ {
		a.tick(t, minute, 3+minute, "chat")
	}
	s := must(js.Stream(t.Context(), "FOREWARM_DECISIONS"))
	good := must(s.GetLastMsgForSubject(t.Context(), "forewarm.decision.chat"))
	must(js.Publish(t.Context(), "forewarm.decision.code-7", good.Data)) // the newest of each pool can be read
	r := NewReader(js, "FOREWARM_DECISIONS", "forewarm")
	for ref, minute := range map[string]int64{"chat-2": 2, "chat@2026-03-02T12:03:00Z#99": 3} {
		x, err := r.Explain(t.Context(), ref)
		if err != nil || x.Decision.Pool != "chat" || x.Decision.Generation != minute {
			t.Errorf("%s: %+v, %v", ref, x.Decision, err)
		}
	}
	for _, ref := range []string{"nobody", "nobody-2", "chat-9", "chat@2026-03-02T12:09:00Z"} {
		if _, err := r.Explain(t.Context(), ref); !errors.Is(err, ErrNoDecision) {
			t.Errorf("%s: %v, want ErrNoDecision", ref, err)
		}
	}
}
