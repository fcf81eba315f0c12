package features

import (
	"github.com/forewarm/forewarm/features/sketch"
	"github.com/forewarm/forewarm/ingest"
)

// AddWindow adds what an edge has counted of a class in a minute since it last said so, "" says it was counted. The caller
// has checked that the pool is known and that this increment was not added before. Refusals are those of AddRequest, and
// ReasonOutOfRange for a sketch that is none. O(bins and names).
//
// Sessions are figures as of the end of their minute: those that come after its first count are left out.
func (a *Aggregator) AddWindow(w *ingest.Window) ingest.Reason {
	var shapes shapes
	for i, data := range w.Sketches {
		if len(data) > 0 && shapes[i].UnmarshalBinary(data) != nil {
			return ingest.ReasonOutOfRange
		}
	}
	tenants, errTenants := restoreRanking(&w.Tenants)
	features, errFeatures := restoreRanking(&w.Features)
	if errTenants != nil || errFeatures != nil {
		return ingest.ReasonOutOfRange
	}
	minute := minuteOf(w.Start)
	a.begin(minute)
	reason := a.refuse(minute)
	if reason == ingest.ReasonFuture {
		return reason
	}
	p := a.pool(w.Pool)
	c := a.class(p, w.Class, max(minute, a.oldest()))
	a.catchUpWith(c)
	c.reports |= Reports(w.Reports)
	for i, v := range c.late.figures() {
		*v += w.Figures[int(ingest.FigureLateRecords)+i]
	}
	counters := countersPerName * a.cfg.MaxTenants
	mergeAccount(&c.tenants, tenants, counters)
	mergeAccount(&c.features, features, counters)
	if reason == ingest.ReasonLate {
		c.late.addWindow(w)
		return reason
	}
	a.counters.Windows++
	if minute < a.open {
		a.counters.Amended++
	}
	if w.Figures != ([ingest.WindowFigures]float64{}) || w.Timed {
		a.mergeCell(p, c, a.cell(c, minute), w, &shapes)
	}
	if w.Sessions != nil && minute >= a.open {
		at := a.cell(c, minute)
		if at.sessions == nil {
			at.sessions = new(edgeSessions)
		}
		at.sessions.add(w.Sessions)
	}
	return ""
}

// mergeCell adds an increment to a cell, and learns from it what requests of the class need.
func (a *Aggregator) mergeCell(p *pool, c *class, at *cell, w *ingest.Window, shapes *shapes) {
	at.KVTimed = at.KVTimed || w.Timed
	for i, v := range at.Window.figures() {
		*v += w.Figures[i]
	}
	a.settleShapes(at)
	for i := range shapes {
		if shapes[i].Count() > 0 {
			a.shapesOf(at)[i].Merge(&shapes[i])
		}
	}
	f := &w.Figures
	c.moments.Merge(sketch.Moments{
		N: f[ingest.FigureMomentN], Prompt: f[ingest.FigureMomentPrompt], Output: f[ingest.FigureMomentOutput],
		PromptOutput: f[ingest.FigureMomentPromptOutput], OutputSq: f[ingest.FigureMomentOutputSq],
	})
	for _, e := range [...]*Expected{&c.expected, &p.expected} {
		if n, prompt := f[ingest.FigureCachedKnown], f[ingest.FigurePromptOfCachedKnown]; n > 0 && prompt > 0 {
			e.Cached[promptBucket(int64(prompt/n))].add(float32(n), float32(f[ingest.FigureCachedTokens]), float32(prompt))
		}
		if n, ended := f[ingest.FigureMomentN], shapes[shapeOutput].Count(); n > 0 && ended > 0 {
			e.Output[promptBucket(int64(f[ingest.FigureMomentPrompt]/n))].add(float32(ended), float32(shapes[shapeOutput].Sum()), float32(ended))
		}
	}
}

// addWindow takes in a window of a minute that is settled.
func (l *Late) addWindow(w *ingest.Window) {
	f := &w.Figures
	l.Records += f[ingest.FigureRecords]
	l.Requests += f[ingest.FigureRequests]
	l.PromptTokens += f[ingest.FigurePromptTokens]
	l.CachedTokens += f[ingest.FigureCachedTokens]
	l.OutputTokens += max(f[ingest.FigureOutputTokens]-f[ingest.FigureOutputRetried], 0)
	l.KVTokenSeconds += f[ingest.FigureKVTokenSeconds]
}

// AddMinute adds what an edge knows of a pool in a minute, under the same conditions as AddWindow.
func (a *Aggregator) AddMinute(m *ingest.Minute) ingest.Reason {
	minute := minuteOf(m.Start)
	a.begin(minute)
	if reason := a.refuse(minute); reason != "" {
		return reason
	}
	p := a.pool(m.Pool)
	// An edge whose clock is ahead must not make silence look like life.
	most := moment(max(a.open, minute)+1)*minuteLength + moment(a.cfg.FutureBound)
	a.evidence(p, minute, max(min(momentOf(m.LastEvent), most), moment(minute)*minuteLength))
	s := &p.coverage[a.slot(minute)].strain
	s.Attempts += float32(m.Attempts)
	s.Turned += float32(m.Turned)
	s.Waited += float32(m.Waited)
	s.Started += float32(m.Started)
	return ""
}

// restoreRanking is the sketch that a ranking was; nil for none.
func restoreRanking(r *ingest.Ranking) (*sketch.TopK, error) {
	if len(r.Names) == 0 && r.Total == 0 {
		return nil, nil
	}
	s := sketch.TopKState{Counters: len(r.Names), Floor: r.Floor, Total: r.Total}
	for _, x := range r.Names {
		s.Counts = append(s.Counts, sketch.Count(x))
	}
	return sketch.RestoreTopK(s)
}

func mergeAccount(at **account, names *sketch.TopK, counters int) {
	if names == nil {
		return
	}
	if *at == nil {
		if names.Len() == 0 {
			return // as book does
		}
		*at = &account{names: sketch.NewTopK(counters)}
	}
	(*at).names.Merge(names)
	(*at).booked = true
}

// mostSessions is where the sums over edges stop, far from overflow: what is added is below 2⁵⁵.
const mostSessions = 1 << 60

// edgeSessions are the sessions that edges have told of, at the end of one minute.
type edgeSessions [ingest.SessionFigures]int64

func (s *edgeSessions) add(o *[ingest.SessionFigures]int64) {
	for i, n := range o {
		if i == int(ingest.SessionLargest) {
			s[i] = max(s[i], n)
		} else {
			s[i] = min(max(s[i]+n, -mostSessions), mostSessions)
		}
	}
}

// merge adds what edges have told of a class's sessions to the sums over its own.
func (a *sessionAccount) merge(s *edgeSessions) {
	for i, v := range a.now.figures() {
		if i == int(ingest.SessionLargest) {
			*v = max(*v, s[i])
		} else {
			*v += s[i]
		}
	}
	a.since.Started += int(s[ingest.SessionStarted])
	a.since.Gaps += int(s[ingest.SessionGaps])
	a.since.Waited += s[ingest.SessionWaited]
	for i, v := range a.byAge() {
		*v += s[int(ingest.SessionByAge)+i]
	}
}
