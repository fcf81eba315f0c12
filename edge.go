package forewarm

import (
	"time"

	"github.com/forewarm/forewarm/ingest"
)

const (
	// partBytes is about how large a part may become; what is one window is never split.
	partBytes   = 256 << 10
	partWindows = 1024
)

// edge is what an edge aggregator publishes. A part is numbered by the fold, so that a replay gives the same parts the
// same numbers, and whoever takes them can tell a second copy from news.
type edge struct {
	edgeState
	passing ingest.Batch // reports and acks that are passed on at the end of the batch at hand
}

type edgeState struct {
	// Epoch is when the stream stored the first message of the state: a state that was lost and begins anew, where the
	// stream no longer reaches as far back, begins later. One that the stream gives back whole numbers its parts as before.
	Epoch    int64  `cbor:"1,keyasint"`
	Sequence uint64 `cbor:"2,keyasint"` // of the newest part
}

// begin takes the time of the first message.
func (e *edge) begin(received time.Time) {
	if e.Epoch == 0 {
		e.Epoch = 1
		if !received.IsZero() {
			e.Epoch = received.UnixNano()
		}
	}
}

// tickEdge ends the minute before t at an edge. When there is nothing to tell of the newest minute it says that, for who adds
// up would wait: under the number of the newest part, so that the numbers do not depend on silence.
func (p *Pipeline) tickEdge(t time.Time, newest bool, out *Output) {
	d := p.aggregator.Drain(t)
	out.Pools = d.Pools
	out.Producers = p.producers.Tick(t, out.Pools)
	p.tickPools(out)
	part, size := ingest.Batch{Minutes: d.Minutes}, 0
	for i := range d.Windows {
		w := &d.Windows[i]
		n := sizeOf(w)
		if len(part.Windows) == partWindows || len(part.Windows) > 0 && size+n > partBytes {
			out.Parts = append(out.Parts, p.numbered(t, part))
			out.Parts[len(out.Parts)-1].Part.More = true
			part, size = ingest.Batch{}, 0
		}
		part.Windows = append(part.Windows, *w)
		size += n
	}
	if len(part.Windows)+len(part.Minutes) > 0 {
		out.Parts = append(out.Parts, p.numbered(t, part))
	} else if newest && p.edge.Sequence > 0 {
		out.Parts = append(out.Parts, p.labelled(t, part))
	}
}

// passOn hands out the reports and acks that an edge has taken, as they came.
func (p *Pipeline) passOn(emit func(*Output)) {
	b := p.edge.passing
	if len(b.Replicas)+len(b.Acks) == 0 {
		return
	}
	p.edge.passing = ingest.Batch{}
	at := p.time.Last
	if at.IsZero() { // nothing but acks has come yet
		at = time.Unix(0, p.edge.Epoch).UTC()
	}
	emit(&Output{Tick: at, Sequence: p.sequence, Parts: []ingest.Batch{p.numbered(at, b)}})
}

// numbered makes b the next part.
func (p *Pipeline) numbered(at time.Time, b ingest.Batch) ingest.Batch {
	p.edge.Sequence++
	return p.labelled(at, b)
}

// labelled gives b the number of the newest part.
func (p *Pipeline) labelled(at time.Time, b ingest.Batch) ingest.Batch {
	b.Source = p.cfg.Agent
	b.Part = &ingest.Part{Agent: p.cfg.Agent, Epoch: p.edge.Epoch, Sequence: p.edge.Sequence, At: at}
	return b
}

// sizeOf is about how many bytes a window takes in a message, labels included.
func sizeOf(w *ingest.Window) int {
	n := 64 + len(w.Pool) + len(w.Class)
	for _, f := range w.Figures {
		if f != 0 {
			n += 10
		}
	}
	for _, s := range w.Sketches {
		n += len(s)
	}
	for _, r := range [...]*ingest.Ranking{&w.Tenants, &w.Features} {
		for i := range r.Names {
			n += 26 + len(r.Names[i].Name)
		}
	}
	return n
}
