package forewarm

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/ingest"
)

// TestApplyAllIsApply: batches that are folded together, each of them with what comes next at hand, lead where they lead one
// by one, also when a class is forgotten between the look ahead and its request.
func TestApplyAllIsApply(t *testing.T) {
	var batches []ingest.Batch
	for _, b := range traffic(3, 20) {
		for i := range b.Requests { // some messages have one record, some many
			if i%3 > 0 {
				batches = append(batches, ingest.Batch{Requests: b.Requests[i : i+1]})
			}
		}
		batches = append(batches, b)
	}
	last := batches[len(batches)-1]
	class := last.Requests[0].Class
	for i, class := range []string{"new", "new", class, class} {
		at := last.Watermark.At.Add(time.Duration(i/2+1) * 5 * time.Hour).Add(time.Duration(i) * time.Second)
		batches = append(batches, ingest.Batch{Requests: []ingest.Request{{
			Pool: "p", Class: class, Attempt: 1, ArrivedAt: at, PromptTokens: 10, CachedTokens: -1, OutputTokens: 10, MaxOutputTokens: -1,
		}}})
	}
	cfg := eventConfig(t, "p")
	cfg.Every, cfg.Features.FutureBound, cfg.Features.ClassTTL = 30*time.Minute, 6*time.Hour, time.Hour
	fold := func(fold func(p *Pipeline, batches []ingest.Batch, emit func(*Output))) (lines []string, state string) {
		p := New(cfg)
		own := slices.Clone(batches)
		for i := range own {
			own[i].Requests = slices.Clone(own[i].Requests)
		}
		fold(p, own, summary(&lines))
		snapshot := saved(t, p)
		if p.Omissions().Features.ClassesEvicted == 0 {
			t.Fatal("no class was forgotten")
		}
		return lines, digest(snapshot)
	}
	wantLines, want := fold(func(p *Pipeline, batches []ingest.Batch, emit func(*Output)) {
		for i := range batches {
			p.Apply(&batches[i], emit)
		}
	})
	for _, span := range []int{3, 32} {
		lines, got := fold(func(p *Pipeline, batches []ingest.Batch, emit func(*Output)) {
			for parcel := range slices.Chunk(batches, span) {
				p.ApplyAll(parcel, emit)
			}
		})
		if d := cmp.Diff(wantLines, lines); d != "" || got != want {
			t.Errorf("parcels of %d: %s", span, d)
		}
	}
}
