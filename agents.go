package forewarm

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

const (
	// maxAgents bounds the edge aggregators that are followed. The one that was silent longest makes room for another once
	// that is agentTTL; before that the new one is refused.
	maxAgents = 1024
	agentTTL  = 24 * time.Hour
	// partsBack is how far behind the newest part of an agent an older one may come and still be told from a second copy.
	partsBack = 64
)

// agents are the edge aggregators whose parts are taken, ordered by name.
type agents struct{ list []agentState }

// agentState tells the parts of one agent that were taken from those that were not.
type agentState struct {
	Name    string    `cbor:"1,keyasint"`
	Epoch   int64     `cbor:"2,keyasint"`
	Last    uint64    `cbor:"3,keyasint"` // newest sequence
	Seen    uint64    `cbor:"4,keyasint"` // bit i: Last − i was taken
	Missing uint64    `cbor:"5,keyasint"` // that can come no more
	At      time.Time `cbor:"6,keyasint"` // newest minute
}

// seen says whether a part was taken before, or comes too late for that to be known.
func (a *agentState) seen(p *ingest.Part) bool {
	switch {
	case p.Epoch != a.Epoch:
		return p.Epoch < a.Epoch
	case p.Sequence > a.Last:
		return false
	default:
		back := a.Last - p.Sequence
		return back >= partsBack || a.Seen>>back&1 != 0
	}
}

// take notes a part that was not seen.
func (a *agentState) take(p *ingest.Part) {
	if p.At.After(a.At) {
		a.At = p.At
	}
	if p.Epoch != a.Epoch { // what the epoch before left open comes no more
		a.Missing += a.open()
		a.Epoch, a.Last, a.Seen = p.Epoch, 0, 1<<partsBack-1
	}
	if p.Sequence <= a.Last {
		a.Seen |= 1 << (a.Last - p.Sequence)
		return
	}
	step := p.Sequence - a.Last
	if step >= partsBack {
		a.Missing += a.open() + step - partsBack
		a.Seen = 0
	} else {
		a.Missing += step - uint64(bits.OnesCount64(a.Seen>>(partsBack-step)))
		a.Seen <<= step
	}
	a.Seen |= 1
	a.Last = p.Sequence
}

// open is how many of the newest parts have not come yet.
func (a *agentState) open() uint64 { return partsBack - uint64(bits.OnesCount64(a.Seen)) }

// find is the agent of a part; a new one is not in the list until it is given to add.
func (a *agents) find(name string) (i int, ok bool) {
	return slices.BinarySearchFunc(a.list, name, func(s agentState, n string) int { return strings.Compare(s.Name, n) })
}

// add makes room for a new agent; nil when there is none.
func (a *agents) add(p *ingest.Part) *agentState {
	if len(a.list) >= maxAgents {
		oldest := 0
		for i := range a.list {
			if a.list[i].At.Before(a.list[oldest].At) {
				oldest = i
			}
		}
		if p.At.Sub(a.list[oldest].At) < agentTTL {
			return nil
		}
		a.list = slices.Delete(a.list, oldest, oldest+1)
	}
	i, _ := a.find(p.Agent)
	// Its first part that is seen here need not be its first.
	a.list = slices.Insert(a.list, i, agentState{Name: strings.Clone(p.Agent), Epoch: p.Epoch, Last: p.Sequence - 1, Seen: 1<<partsBack - 1})
	return &a.list[i]
}

func (a *agents) missing() (n uint64) {
	for i := range a.list {
		n += a.list[i].Missing
	}
	return n
}

// part says whether a message of an edge aggregator is to be folded, and moves time to where its minutes are. A message
// that is not is refused as one.
func (p *Pipeline) part(b *ingest.Batch, emit func(*Output)) bool {
	reason := p.takePart(b.Part, emit)
	if reason != "" {
		p.refuse(b, reason, "", b.Part.At, func() []byte { return nil })
	}
	return reason == ""
}

func (p *Pipeline) takePart(part *ingest.Part, emit func(*Output)) ingest.Reason {
	if part.Agent == p.cfg.Agent {
		return ingest.ReasonInconsistent // its own: it must not add up what it has published
	}
	i, known := p.agents.find(part.Agent)
	if known && p.agents.list[i].seen(part) {
		return ingest.ReasonDuplicate
	}
	if reason := p.reach(part.At.Add(-features.Minute), emit); reason != "" {
		return reason
	}
	var a *agentState
	if known {
		a = &p.agents.list[i]
	} else if a = p.agents.add(part); a == nil {
		return ingest.ReasonTooMany
	}
	a.take(part)
	return ""
}

// addEdge adds up what an edge has counted.
func (p *Pipeline) addEdge(b *ingest.Batch) {
	for i := range b.Windows {
		w := &b.Windows[i]
		reason := ingest.ReasonUnknownPool
		if p.entry(w.Pool) != nil {
			reason = p.counted(p.aggregator.AddWindow(w))
		}
		if reason != "" {
			p.refuse(b, reason, w.Pool, w.Start, func() []byte { return ingest.AppendWindow(nil, w) })
		}
	}
	for i := range b.Minutes {
		m := &b.Minutes[i]
		reason := ingest.ReasonUnknownPool
		if p.entry(m.Pool) != nil {
			reason = p.aggregator.AddMinute(m)
		}
		p.producers.Minute(m, reason)
		if reason != "" {
			p.refuse(b, reason, m.Pool, m.Start, func() []byte { return nil })
		}
	}
}
