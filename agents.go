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
	Last    uint64    `cbor:"3,keyasint"`  // newest sequence
	Seen    uint64    `cbor:"4,keyasint"`  // bit i: Last − i was taken
	Missing uint64    `cbor:"5,keyasint"`  // that can come no more
	At      time.Time `cbor:"6,keyasint"`  // newest minute
	Done    time.Time `cbor:"7,keyasint"`  // it has told all that it knew of the minutes before this one; zero before it did
	Late    uint64    `cbor:"8,keyasint"`  // windows that came after their minute had closed here
	LateAt  time.Time `cbor:"9,keyasint"`  // the newest tick that missed some
	First   time.Time `cbor:"10,keyasint"` // the minute of the first part that was seen: nobody could wait for that
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
	a.tell(p)
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

// tell takes how far the agent has come.
func (a *agentState) tell(p *ingest.Part) {
	if at := p.At.Truncate(features.Minute); !p.More && at.After(a.Done) {
		a.Done = at
	}
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
	a.list = slices.Insert(a.list, i, agentState{Name: strings.Clone(p.Agent), Epoch: p.Epoch, Last: p.Sequence - 1, Seen: 1<<partsBack - 1, First: p.At})
	return &a.list[i]
}

// awaited is the first tick after the one given, up to the last one given, that an agent has not told all of though it had
// of the tick before; zero for none. An agent that missed a tick is not waited for again until it has caught up. O(agents).
func (a *agents) awaited(after, last time.Time) (first time.Time) {
	for i := range a.list {
		if a.list[i].Done.IsZero() {
			continue
		}
		t := a.list[i].Done.Add(features.Minute)
		if t.After(after) && !t.After(last) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func (a *agents) late() (n uint64) {
	for i := range a.list {
		n += a.list[i].Late
	}
	return n
}

func (a *agents) missing() (n uint64) {
	for i := range a.list {
		n += a.list[i].Missing
	}
	return n
}

// EdgeState is what is known of an edge aggregator.
type EdgeState struct {
	Agent  string
	Done   time.Time // it has told all that it knew of the minutes before; zero before it did
	Late   uint64    // windows that came after their minute had closed here: history has them, models learn less of them
	LateAt time.Time // the newest tick that missed some; zero for none
}

// Edges are the edge aggregators whose windows are added up, ordered by name.
func (p *Pipeline) Edges() []EdgeState {
	out := make([]EdgeState, len(p.agents.list))
	for i := range out {
		a := &p.agents.list[i]
		out[i] = EdgeState{a.Name, a.Done, a.Late, a.LateAt}
	}
	return out
}

// part says whether a message of an edge aggregator is to be folded, and moves time to where its minutes are. A message
// that is not is refused as one.
func (p *Pipeline) part(b *ingest.Batch, emit func(*Output)) bool {
	reason := p.takePart(b, emit)
	if reason != "" {
		p.refuse(b, reason, "", b.Part.At, func() []byte { return nil })
	}
	return reason == ""
}

func (p *Pipeline) takePart(b *ingest.Batch, emit func(*Output)) ingest.Reason {
	part := b.Part
	if part.Agent == p.cfg.Agent {
		return ingest.ReasonInconsistent // its own: it must not add up what it has published
	}
	i, known := p.agents.find(part.Agent)
	if known && p.agents.list[i].seen(part) {
		if a := &p.agents.list[i]; part.Epoch == a.Epoch && len(b.Windows)+len(b.Minutes)+len(b.Replicas)+len(b.Acks) == 0 {
			reason := p.reach(part.At.Add(-features.Minute), emit)
			if reason == "" {
				a.tell(part) // it has nothing new to tell
			}
			return reason
		}
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
			continue
		}
		p.noteLate(b.Part, w)
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

// noteLate counts a window of an agent's newest minute that had closed before it came, from its second minute on. Those of
// older minutes are amendments as all requests make that end later.
func (p *Pipeline) noteLate(part *ingest.Part, w *ingest.Window) {
	if end := w.Start.Add(features.Minute); end.Before(part.At) || end.After(p.time.Last) {
		return
	}
	if i, known := p.agents.find(part.Agent); known && part.At.After(p.agents.list[i].First) {
		p.agents.list[i].Late++
		p.agents.list[i].LateAt = p.time.Last
	}
}

// due takes that ticks up to t are due by the clock. They run as far as the agents that kept step have told of their minutes;
// ticks up to passed have waited long enough. What waits is part of the state, so that a replay of the log waits alike.
func (p *Pipeline) due(t, passed time.Time, emit func(*Output)) {
	k := &p.time
	if !t.After(k.Last) {
		return
	}
	if t.After(k.Due) {
		k.Due = t
	}
	if k.Held.After(passed) {
		return
	}
	p.release(passed, emit)
}

// release runs the ticks that are due and need not wait, or no longer. On the wall clock a tick that another one follows which
// waits in turn is the newest of those that can be decided.
func (p *Pipeline) release(passed time.Time, emit func(*Output)) {
	k := &p.time
	if k.Due.IsZero() {
		return
	}
	if passed.Before(k.Last) {
		passed = k.Last
	}
	waited := k.Held
	k.Held = p.agents.awaited(passed, k.Due)
	if k.Held.IsZero() {
		p.run(k.Due, true, emit)
		return
	}
	before := k.Held.Add(-features.Minute)
	p.run(before, p.cfg.Clock == EventClock || before.Equal(waited), emit)
}

// partTaken runs the ticks that waited for a part, when all that it carries is added up. On the event clock a part tells the
// time as well: its agent has waited for what is late.
func (p *Pipeline) partTaken(part *ingest.Part, emit func(*Output)) {
	if p.cfg.Clock == EventClock && !part.More {
		at := part.At.Truncate(features.Minute)
		p.due(at, at.Add(-p.cfg.AgentWait), emit)
	}
	if !p.time.Held.IsZero() {
		p.release(time.Time{}, emit)
	}
}

// Held is the tick that waits for edge aggregators, zero when none does.
func (p *Pipeline) Held() time.Time { return p.time.Held }
