package codec

import (
	"cmp"

	"github.com/forewarm/forewarm/ingest"
)

// none is the index of nothing.
const none = -1

// node is a span of an export.
type node struct {
	trace           [16]byte
	id, parent      [8]byte
	request         int // index of its request in the export; none if it is no inference
	service, source string
}

// spanKey identifies a span in an export.
type spanKey struct {
	trace [16]byte
	id    [8]byte
}

// maxAncestors bounds the spans above one that are looked at.
const maxAncestors = 32

// close selects the export's inferences that count, and fills in their missing names. One with counts covers those
// above it. One without counts is covered by any above it.
func (x *export) close() {
	x.refuseBeyond(x.spans)
	at := make(map[spanKey]int, len(x.tree))
	for i := range x.tree {
		at[spanKey{x.tree[i].trace, x.tree[i].id}] = i
	}
	covered := make([]bool, len(x.tree))
	for i := range x.tree {
		if x.tree[i].request == none || covered[i] { // what covers i covers all above it
			continue
		}
		r := &x.requests[x.tree[i].request]
		for above, n := i, 0; n < maxAncestors; n++ {
			key, known := spanKey{x.tree[above].trace, x.tree[above].parent}, false
			if above, known = at[key]; !known || above == i || key.id == [8]byte{} {
				break
			}
			if x.tree[above].request == none {
				continue
			}
			outer := &x.requests[x.tree[above].request]
			if !isSized(r) {
				covered[i] = true
				if outer.Status == ingest.StatusError { // the inner span may know that it was rejected or cancelled
					outer.Phase, outer.Status = r.Phase, r.Status
				}
				break
			}
			covered[above] = true
			inherit(r, outer)
		}
	}
	for i := range x.tree {
		switch n := &x.tree[i]; {
		case n.request == none:
		case covered[i]:
			x.batch.Ignored++
		default:
			x.keep(&x.requests[n.request], n)
		}
	}
	if x.batch.Source == "" {
		x.batch.Source = x.source
	}
}

// inherit fills in the missing names of r from an inference above it.
func inherit(r, from *ingest.Request) {
	for _, name := range [...]struct{ to, from *string }{
		{&r.Pool, &from.Pool}, {&r.Class, &from.Class}, {&r.Model, &from.Model}, {&r.Tenant, &from.Tenant}, {&r.Tier, &from.Tier},
		{&r.Feature, &from.Feature}, {&r.Route, &from.Route}, {&r.Region, &from.Region},
	} {
		if *name.to == "" {
			*name.to = *name.from
		}
	}
	if r.Session == 0 {
		r.Session = from.Session
	}
}

// keep adds r to the batch. The producer is kept only while it is the same for all requests.
func (x *export) keep(r *ingest.Request, n *node) {
	r.Pool = cmp.Or(r.Pool, x.meta.Pool, r.Model, n.service)
	x.fillClass(&r.Class)
	x.refusal = ingest.Refusal{}
	switch {
	case r.Pool == "":
		x.fail(ingest.ReasonMissingField, "there is no pool: no %s, no %s and no %s", otlpFields.paths[fieldPool][0], otlpFields.paths[fieldModel][0], otlpFields.paths[fieldService][0])
	case !isSized(r) && r.Status == ingest.StatusOK:
		x.fail(ingest.ReasonMissingField, "%s is missing", otlpFields.paths[fieldPromptTokens][0])
	}
	if x.refusal.Reason != "" {
		x.reject(n.id)
		return
	}
	if x.kept++; x.kept == 1 {
		x.source = n.source
	} else if n.source != x.source {
		x.source = ""
	}
	x.batch.Requests = append(x.batch.Requests, *r)
}
