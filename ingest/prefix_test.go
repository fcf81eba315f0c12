package ingest

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPrefixCacheForgetsTheOldest(t *testing.T) {
	c := NewPrefixCache(3)
	for _, step := range []struct {
		prompt []uint64
		want   int
	}{
		{[]uint64{1, 2}, 0},
		{[]uint64{1, 2, 3}, 2},
		{[]uint64{1, 9}, 1},          // 3, the end of the last prompt, is the oldest block now, and is dropped
		{[]uint64{1, 2, 3}, 2},       // 2 is still there
		{[]uint64{5, 2, 3}, 0},       // blocks count only from the start of the prompt
		{nil, 0},                     // no prompt
		{[]uint64{5, 2, 3, 4, 6}, 3}, // longer than the capacity: its first blocks are kept
		{[]uint64{5, 2, 3, 4, 6}, 3},
		{[]uint64{7}, 0},
	} {
		if got := c.Hit(step.prompt); got != step.want {
			t.Errorf("%v hit %d blocks, want %d", step.prompt, got, step.want)
		}
	}
	if n := c.blocks.Len(); n != 3 {
		t.Errorf("%d blocks, want 3", n)
	}
}

// TestPrefixCacheIsLRU compares with a list that is ordered by last use.
func TestPrefixCacheIsLRU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 8).Draw(t, "capacity")
		c := NewPrefixCache(capacity)
		var known []uint64 // oldest first
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			prompt := rapid.SliceOfN(rapid.Uint64Range(1, 12), 0, 10).Draw(t, "prompt")
			want := 0
			for want < len(prompt) && slices.Contains(known, prompt[want]) {
				want++
			}
			if got := c.Hit(prompt); got != want {
				t.Fatalf("%v hit %d blocks of %v, want %d", prompt, got, known, want)
			}
			for _, hash := range slices.Backward(prompt[:min(len(prompt), capacity)]) {
				known = append(slices.DeleteFunc(known, func(x uint64) bool { return x == hash }), hash)
			}
			known = known[max(0, len(known)-capacity):]
			if c.blocks.Len() != len(known) || c.blocks.Len() > capacity {
				t.Fatalf("%d blocks, want %d", c.blocks.Len(), len(known))
			}
		}
	})
}

// TestPrefixCacheOnMooncake measures the share of cached tokens of a real trace.
func TestPrefixCacheOnMooncake(t *testing.T) {
	dir := os.Getenv("FOREWARM_TRACES")
	f, err := os.Open(filepath.Join(dir, "conversation_trace.jsonl"))
	if dir == "" || err != nil {
		t.Skip("FOREWARM_TRACES names no directory with Mooncake's conversation_trace.jsonl")
	}
	defer f.Close()
	type row struct {
		Input  float64  `json:"input_length"`
		Blocks []uint64 `json:"hash_ids"`
	}
	var rows []row
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	for capacity, want := range map[int]float64{1 << 20: .374, 20_000: .293, 5_000: .114, 1_000: .045} {
		c, cached, prompt := NewPrefixCache(capacity), 0.0, 0.0
		for _, r := range rows {
			cached += min(r.Input, 512*float64(c.Hit(r.Blocks)))
			prompt += r.Input
		}
		if got := cached / prompt; math.Abs(got-want) > 0.001 {
			t.Errorf("%d blocks: %.4f of the tokens are cached, want %.3f", capacity, got, want)
		}
	}
}
