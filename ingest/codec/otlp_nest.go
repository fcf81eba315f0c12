package codec

import "github.com/forewarm/forewarm/ingest"

// none is the index of nothing.
const none = -1

// node is a span in its trace.
type node struct {
	trace           [16]byte
	id, parent      [8]byte
	request         int    // index of its request in the export, or none
	inference       bool   // it is an inference, not only context for those below it
	responseID      string // other spans may have the same
	service, source string
}

type spanTree []node

// spanKey identifies a span in an export.
type spanKey struct {
	trace [16]byte
	id    [8]byte
}

// States of the search for the nearest span of a kind above a span.
const (
	unsought = -2 - iota
	seeking
)

// nearest returns, for each span, the nearest span of a kind above it, or none. A cycle ends the search. O(n).
func (t spanTree) nearest(is func(n *node) bool) []int {
	at := make(map[spanKey]int, len(t))
	for i := range t {
		at[spanKey{t[i].trace, t[i].id}] = i
	}
	above := make([]int, len(t))
	for i := range above {
		above[i] = unsought
	}
	parent := func(i int) int {
		if p, ok := at[spanKey{t[i].trace, t[i].parent}]; ok && t[i].parent != [8]byte{} {
			return p
		}
		return none
	}
	var path []int
	for i := range t {
		path = path[:0]
		found, j := none, i
		for above[j] == unsought {
			above[j] = seeking
			path = append(path, j)
			if j = parent(j); j == none || above[j] != seeking && is(&t[j]) {
				found = j
				break
			}
		}
		if found == none && j != none && above[j] != seeking {
			found = above[j]
		}
		for _, k := range path {
			above[k] = found
		}
	}
	return above
}

// maxDonors bounds the spans that one inherits from.
const maxDonors = 8

// close selects the export's inferences that count, and fills in their missing values. One with counts covers those
// above it and those without counts directly below it.
func (x *export) close() {
	if over := x.spans - x.limits.BatchRecords; over > 0 {
		x.refuse(nil, ingest.ReasonBatchTooLong, "%d spans beyond the limit of %d", over, x.limits.BatchRecords)
	}
	if len(x.requests) == 0 {
		return
	}
	above := x.tree.nearest(func(n *node) bool { return n.inference })
	telling := x.tree.nearest(func(n *node) bool { return n.request != none })
	covered := make([]bool, len(x.tree))
	heirs := make([]int, len(x.tree)) // inferences with counts directly below
	for i := range x.tree {
		n := &x.tree[i]
		switch {
		case !n.inference:
			continue
		case !isSized(&x.requests[n.request]):
			x.explain(i, above)
			continue
		}
		for k := above[i]; k != none && k != i && !covered[k] && !covered[i]; k = above[k] { // a cover of i covers these too
			covered[k] = true
		}
		if above[i] != none {
			heirs[above[i]]++
		}
	}
	x.join(covered, above, heirs)
	for i := range x.tree {
		n := &x.tree[i]
		switch {
		case !n.inference:
			continue
		case covered[i], above[i] != none && !isSized(&x.requests[n.request]):
			x.batch.Ignored++
			continue
		}
		r := &x.requests[n.request]
		for from, donors := telling[i], 0; from != none && donors < maxDonors; from, donors = telling[from], donors+1 {
			inherit(r, &x.requests[x.tree[from].request], heirs[from] == 1)
		}
		x.keep(r, n)
	}
	if x.batch.Source == "" {
		x.batch.Source = x.source
	}
}

// explain copies a rejection or cancellation from a failed span without counts to the spans above it, which count in
// its place, if those say only that they failed.
func (x *export) explain(i int, above []int) {
	r := &x.requests[x.tree[i].request]
	for k, n := above[i], 0; k != none && n < maxDonors && (r.Status == ingest.StatusRejected || r.Status == ingest.StatusCancelled); k, n = above[k], n+1 {
		if outer := &x.requests[x.tree[k].request]; outer.Status == ingest.StatusError && !isSized(outer) {
			outer.Phase, outer.Status = r.Phase, r.Status
		}
	}
}

// sample is the key that the spans of one request's answers share.
type sample struct {
	id, service, source string
	parent              spanKey
	prompt              int64
}

// join merges the spans that an engine reports for several answers to one request: vLLM's spans of a request with n > 1
// have the same response id, parent and prompt. Their outputs are summed, the prompt counts once. The other spans are
// then covered. Those that come in a later export are dropped as duplicates.
func (x *export) join(covered []bool, above, heirs []int) {
	first := map[sample]*ingest.Request{}
	for i := range x.tree {
		n := &x.tree[i]
		root := n.parent == [8]byte{}
		if !n.inference || covered[i] || n.responseID == "" || root && len(n.responseID) < minUniqueID {
			continue
		}
		r := &x.requests[n.request]
		key := sample{n.responseID, n.service, n.source, spanKey{n.trace, n.parent}, r.PromptTokens}
		if root {
			key.parent = spanKey{} // each is its own trace
		}
		all := first[key]
		if all == nil {
			first[key] = r
			continue
		}
		covered[i] = true
		if above[i] != none {
			heirs[above[i]]--
		}
		if r.OutputTokens != ingest.Unknown {
			all.OutputTokens = min(max(all.OutputTokens, 0)+r.OutputTokens, x.limits.Tokens)
		}
		if r.FinishedAt.After(all.FinishedAt) {
			all.FinishedAt = r.FinishedAt
		}
		if !r.FirstTokenAt.IsZero() && (all.FirstTokenAt.IsZero() || r.FirstTokenAt.Before(all.FirstTokenAt)) {
			all.FirstTokenAt = r.FirstTokenAt
		}
	}
}

// inherit fills in the missing values of r from an inference above it, and counts only if r is the only one below that.
func inherit(r, from *ingest.Request, alone bool) {
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
	if !alone {
		return
	}
	if r.CachedTokens == ingest.Unknown && from.CachedTokens <= r.PromptTokens {
		r.CachedTokens = from.CachedTokens
	}
	if r.OutputTokens == ingest.Unknown {
		r.OutputTokens = from.OutputTokens
	}
	if r.MaxOutputTokens == ingest.Unknown {
		r.MaxOutputTokens = from.MaxOutputTokens
	}
}

// keep adds r to the batch. The producer is kept only while it is the same for all requests.
func (x *export) keep(r *ingest.Request, n *node) {
	for _, pool := range [...]string{x.meta.Pool, r.Model, n.service} {
		if r.Pool == "" {
			r.Pool = pool
		}
	}
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
