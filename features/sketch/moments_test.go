package sketch

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMoments(t *testing.T) {
	// Two kinds of request that mix: short prompt with long output, and the other way round.
	var whole, chat, rag Moments
	for range 3 {
		chat.Add(100, 1000)
		rag.Add(1000, 100)
	}
	for range 3 {
		whole.Add(100, 1000)
		whole.Add(1000, 100)
	}
	chat.Merge(rag)
	if diff := cmp.Diff(whole, chat); diff != "" {
		t.Errorf("merge of parts (-whole +merged):\n%s", diff)
	}
	promptOutput, outputSq := whole.Products()
	if want := 100_000.0 / (550 * 550); math.Abs(promptOutput-want) > 1e-12 {
		t.Errorf("E[po]/(E[p]E[o]) = %v, want %v", promptOutput, want)
	}
	if want := 505_000.0 / (550 * 550); math.Abs(outputSq-want) > 1e-12 {
		t.Errorf("E[o²]/E[o]² = %v, want %v", outputSq, want)
	}
	whole.Scale(0.25)
	if p, o := whole.Products(); math.Abs(p-promptOutput) > 1e-12 || math.Abs(o-outputSq) > 1e-12 || whole.N != 1.5 {
		t.Errorf("fading changed the products to %v, %v, or N to %v", p, o, whole.N)
	}
	if p, o := new(Moments).Products(); p != 1 || o != 1 {
		t.Errorf("products of nothing = %v, %v, want 1, 1", p, o)
	}
}
