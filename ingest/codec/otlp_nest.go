package codec

import (
	"cmp"
	"slices"

	"github.com/forewarm/forewarm/ingest"
)

type spanKey struct {
	trace [16]byte
	id    [8]byte
}

type otlpSpan struct {
	key, parent     spanKey
	request         *ingest.Request // nil if it is no inference
	covered         bool            // another span counts in its place
	service, source string
}

// maxAncestors is how many of the spans above one are looked at.
const maxAncestors = 32

// endSpans selects the export's inferences that count. One with counts covers those above it and takes its missing names
// from them. One without counts is covered by any above it. The producer of the batch is kept if all have the same.
func (x *export) endSpans() {
	at := make(map[spanKey]*otlpSpan, len(x.spans))
	for i := range x.spans {
		at[x.spans[i].key] = &x.spans[i]
	}
	for i := range x.spans {
		if s := &x.spans[i]; s.request != nil && !s.covered { // what covers s covers all above it
			cover(s, at)
		}
	}
	var sources []string
	for i := range x.spans {
		s := &x.spans[i]
		switch {
		case s.request == nil:
			continue
		case s.covered:
			x.batch.Ignored++
			continue
		}
		x.service, x.refusal = s.service, ingest.Refusal{}
		if x.accept(s.request); x.refusal.Reason != "" {
			x.reject(s.key)
		} else if !slices.Contains(sources, s.source) {
			sources = append(sources[:min(1, len(sources))], s.source) // two show that they differ
		}
	}
	if x.batch.Source == "" && len(sources) == 1 {
		x.batch.Source = sources[0]
	}
}

// cover marks the inferences above s, or s itself.
func cover(s *otlpSpan, at map[spanKey]*otlpSpan) {
	outer := s
	for range maxAncestors {
		above := at[outer.parent]
		if above == nil || above == s || outer.parent.id == [8]byte{} {
			return
		}
		outer = above
		switch {
		case outer.request == nil:
		case s.request.PromptTokens != ingest.Unknown:
			outer.covered = true
			inherit(s.request, outer.request)
		default:
			s.covered = true
			if outer.request.Status == ingest.StatusError { // the inner span may know that it was rejected or cancelled
				outer.request.Phase, outer.request.Status = s.request.Phase, s.request.Status
			}
			return
		}
	}
}

// inherit fills in the missing names of r from an inference above it.
func inherit(r, from *ingest.Request) {
	for _, name := range [...]struct{ to, from *string }{
		{&r.Pool, &from.Pool}, {&r.Class, &from.Class}, {&r.Model, &from.Model}, {&r.Tenant, &from.Tenant}, {&r.Tier, &from.Tier},
		{&r.Feature, &from.Feature}, {&r.Route, &from.Route}, {&r.Region, &from.Region},
	} {
		*name.to = cmp.Or(*name.to, *name.from)
	}
	r.Session = cmp.Or(r.Session, from.Session)
}
