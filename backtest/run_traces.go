package backtest

import (
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// features is how traffic is aggregated. Traces without times of their own are complete minute by minute; recorded
// telemetry comes at the end of requests, and is amended as in life.
func (r *runner) features(timed bool) features.Config {
	c := *r.cfg.Features
	c.Lateness = 0
	if !timed {
		c.Revise = 0
	}
	c.Service = map[string]features.Service{r.cfg.Options.Pool: r.service()}
	return c
}

// service is by what both the demand and the pipeline turn token counts into time: the pool's own speed, as in life. A
// replica that is sized after the trace's peak has no speed of its own.
func (r *runner) service() features.Service {
	s := r.cfg.Features.DefaultService
	if p := r.cfg.Pool; p != nil && p.Rates.PrefillTokensPerS > 0 {
		s.PrefillTokensPerS = p.Rates.PrefillTokensPerS
	}
	if p := r.cfg.Pool; p != nil && p.Rates.ITL > 0 {
		s.ITL = p.Rates.ITL
	}
	return s
}

// wideBins is what to know of the scores of a trace whose bins are wider than a minute.
const wideBins = "bins are spread evenly over their minutes, so minutes of a bin that is not over are known from its sum: leads shorter than the bin flatter"

// read hands what is recorded to do, or opens the trace and hands over what is in it.
func (r *runner) read(stage string, do func(log eventLog, timed bool) error) error {
	if x := r.cfg.Recorded; x != nil {
		r.start = x.Start
		r.trace = TraceSummary{Path: x.Source, Format: "recorded minutes", Rows: int64(x.minutes())}
		log := newRecordedLog(x, r.cfg.Options.Pool)
		return do(r.watched(log, func() Progress { return Progress{stage, int64(log.minute), int64(x.minutes())} }), false)
	}
	x, err := Open(r.cfg.Trace, r.cfg.Options)
	if err != nil {
		return err
	}
	defer func() { _ = x.Close() }() // was only read
	r.start = x.Start()
	log := r.watched(NewSource(x, r.cfg.Options.Pool), func() Progress {
		read, total := x.Progress()
		return Progress{stage, read, total}
	})
	if err := do(log, x.Format().timed); err != nil {
		return err
	}
	n := x.Counts()
	r.trace = TraceSummary{Path: r.cfg.Trace, Format: x.Format().Name, Rows: n.Rows, Refused: n.Refused, Disordered: n.Disordered, Notes: x.Notes()}
	if x.order.widest() > int64(features.Minute) {
		r.trace.Notes = append(slices.Clip(r.trace.Notes), wideBins)
	}
	if n.First != nil {
		r.trace.First = n.First.Error()
	}
	return nil
}

// watched is a log of which it is told after each batch how far it is read.
func (r *runner) watched(log eventLog, progress func() Progress) eventLog {
	if r.cfg.Progress == nil {
		return log
	}
	return &watchedLog{log, func() { r.cfg.Progress(progress()) }}
}

type watchedLog struct {
	eventLog
	tell func()
}

func (l *watchedLog) Next(b *ingest.Batch) error {
	err := l.eventLog.Next(b)
	l.tell()
	return err
}
