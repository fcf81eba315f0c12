package features

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/forewarm/forewarm/features/sketch"
)

// What was measured in minutes that are jumped over goes with them.
func TestPendingOfMinutesJumpedOver(t *testing.T) {
	a := New(DefaultConfig())
	for i := range 2000 {
		mustAdd(t, a, changed(request(fmt.Sprint(i), 1), tokens(int64(1000+i), 0, int64(i))))
	}
	if a.sparePending.used == 0 {
		t.Fatal("nothing waits: the test is void")
	}
	a.Close(at(86400))
	a.Close(at(86460)) // takes back what the one before lent out
	if a.sparePending.used != 0 || a.spareCells.used != 0 {
		t.Errorf("%d pending, %d cells are in use", a.sparePending.used, a.spareCells.used)
	}
}

// A minute of thousands of measurements is counted as they come one after the other, and what was frozen in the middle of
// it stays.
func TestPendingOfABusyMinute(t *testing.T) {
	const n = 5000
	a := New(DefaultConfig())
	var want sketch.Quantile
	var frozen *Frozen
	var was []byte
	add := func(i int) {
		r := changed(request(fmt.Sprint(i), float64(i)*59/n), tokens(int64(200+i*i%9973), int64(i%50), int64(i%700)))
		want.Add(float64(r.PromptTokens))
		mustAdd(t, a, r)
	}
	for i := range n {
		if i > n/2 && frozen == nil && a.sparePending.used > 0 {
			was, frozen = bytesOf(t, a), a.Freeze()
		}
		add(i)
	}
	if frozen == nil {
		t.Fatal("nothing waited: the test is void")
	}
	if !bytes.Equal(was, written(t, frozen)) {
		t.Error("what was frozen has changed")
	}
	a.Thaw()
	h := new(history)
	h.closeUntil(t, a, 1, 1)
	if w := h.window(t, "chat", 0); !w.Prompt.Equal(&want) {
		t.Errorf("%v prompts are counted, want %v", w.Prompt.Count(), want.Count())
	}
	for m := range 20 {
		a.Close(at(float64(m+2) * 60))
	}
	if a.sparePending.used != 0 {
		t.Errorf("%d pending are in use", a.sparePending.used)
	}
}
