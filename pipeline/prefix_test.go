package pipeline

import (
	"fmt"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// TestCachedTokensFromBlocks: what producers report stands, and what they leave out follows from the blocks.
func TestCachedTokensFromBlocks(t *testing.T) {
	cfg := eventConfig(t, "p", "q")
	cfg.PrefixBlocks = 100
	p := New(cfg)
	const unknown = ingest.Unknown
	for i, step := range []struct {
		pool   string
		phase  ingest.Phase
		prompt int64
		cached int64
		blocks []uint64
		want   int64
	}{
		{"p", ingest.PhaseArrived, 200, unknown, []uint64{1, 2, 3, 4}, unknown}, // not served yet
		{"p", ingest.PhaseFinished, 200, unknown, []uint64{1, 2, 3, 4}, 0},
		{"q", ingest.PhaseFinished, 200, unknown, []uint64{1, 2, 3, 4}, 0},    // another pool's caches
		{"p", ingest.PhaseFinished, 150, unknown, []uint64{1, 2, 5}, 128},     // the leading run
		{"p", ingest.PhaseFinished, 200, unknown, []uint64{1, 2, 3, 4}, 200},  // at most the prompt
		{"p", ingest.PhaseFinished, 128, 64, []uint64{6, 7}, 64},              // as reported
		{"p", ingest.PhaseFinished, 192, unknown, []uint64{6, 7, 8}, 128},     // and learned nevertheless
		{"p", ingest.PhaseRejected, 192, unknown, []uint64{6, 7, 9}, unknown}, // never served
		{"p", ingest.PhaseFinished, 192, unknown, nil, unknown},
	} {
		b := ingest.Batch{Requests: []ingest.Request{{
			ID: fmt.Sprint(i), Pool: step.pool, Phase: step.phase, Attempt: 1, ArrivedAt: midnight, PromptTokens: step.prompt, CachedTokens: step.cached,
			OutputTokens: unknown, MaxOutputTokens: unknown, Blocks: step.blocks, BlockTokens: 64,
		}}}
		p.Apply(&b, func(*Output) {})
		if got := b.Requests[0].CachedTokens; got != step.want || len(b.Refused) > 0 {
			t.Errorf("step %d: %d cached, want %d (refused %v)", i, got, step.want, b.Refused)
		}
	}
}

// TestPrefixFitsTheKVCaches: a pool whose caches hold little remembers little, and without bounds nothing is estimated.
func TestPrefixFitsTheKVCaches(t *testing.T) {
	request := ingest.Request{Phase: ingest.PhaseFinished, PromptTokens: 640, CachedTokens: ingest.Unknown, BlockTokens: 64, Blocks: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}
	var pool capacity.Pool
	for name, tc := range map[string]struct {
		capacity float64
		ready    int
		observed bool
		want     int
	}{
		"small caches":      {128, 2, true, 4},
		"large caches":      {1e9, 2, true, 8},
		"smaller than one":  {1, 1, true, 1},
		"nothing is known":  {0, 0, false, 8},
		"silent replicas":   {128, 2, false, 8},
		"no ready replicas": {128, 0, true, 8},
	} {
		var p prefix
		r := request
		p.setCachedTokens(&r, 8)
		p.resize(&features.PoolState{KVCapacityTokens: tc.capacity, Ready: tc.ready, Observed: tc.observed}, &pool, 8)
		if got := p.cache.Len(); got != tc.want {
			t.Errorf("%s: %d blocks, want %d", name, got, tc.want)
		}
	}
	var p prefix
	r := request
	if p.setCachedTokens(&r, 0); r.CachedTokens != ingest.Unknown || p.cache != nil {
		t.Errorf("with 0 blocks: %d cached", r.CachedTokens)
	}
}
