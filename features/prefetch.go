package features

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// PrefetchSpan is how many requests [Aggregator.Prefetch] takes at once.
const PrefetchSpan = 8

// upcoming are the classes of the requests that come next, as Prefetch found them.
type upcoming struct {
	classes [PrefetchSpan]*class
	next    int
	read    uint64 // so that reads which have no other use are not left out
}

// Prefetch reads what adding up to PrefetchSpan requests is going to touch. With thousands of classes none of it is in a
// cache: a request waits for some thirty lines of memory, and for many of them only after another one has come; of
// several requests, the waits overlap. It changes nothing that shows.
func (a *Aggregator) Prefetch(requests []*ingest.Request) {
	u := &a.upcoming
	u.classes, u.next = [PrefetchSpan]*class{}, 0
	for i, r := range requests {
		if p := a.known(r.Pool); p != nil {
			u.classes[i] = p.byName[r.Class]
		}
	}
	var cells [PrefetchSpan]*cell
	read := uint64(0)
	for i, r := range requests {
		if c := u.classes[i]; c != nil {
			if minute := momentOf(r.EventTime()).minute(); a.holds(minute) {
				cells[i] = a.find(c, minute)
			}
			b := promptBucket(r.PromptTokens)
			read |= uint64(c.born) | uint64(math.Float32bits(c.expected.Output[b].N)|math.Float32bits(c.expected.Cached[b].N)|math.Float32bits(c.expected.Decode.N))
			if c.tenants != nil {
				read |= c.tenants.names.Touch()
			}
		}
	}
	for _, at := range &cells {
		if at != nil {
			read |= math.Float64bits(at.Records) | math.Float64bits(at.RequestsKnown) | math.Float64bits(at.CachedTokens) |
				math.Float64bits(at.KVModelled) | math.Float64bits(at.Moments.OutputSq)
			if at.shapes != nil {
				for j := range at.shapes {
					read |= at.shapes[j].Touch()
				}
			}
		}
	}
	u.read = read
}

// take is the class of the next request, if Prefetch found it and it is the one wanted.
func (u *upcoming) take(p *pool, name string) *class {
	for u.next < PrefetchSpan {
		c := u.classes[u.next]
		u.next++
		if c != nil && c.key.Class == name && c.key.Pool == p.name {
			return c
		}
	}
	return nil
}
