package backtest

import (
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// features configures the aggregation. Traces without request times are complete minute by minute. Recorded telemetry
// arrives at the end of requests, with amendments, as in production.
func (r *runner) features(timed bool) features.Config {
	c := *r.cfg.Features
	c.Lateness = 0
	if !timed {
		c.Revise = 0
	}
	c.Service = map[string]features.Service{r.cfg.Options.Pool: r.service()}
	return c
}

// service converts token counts to time, for the demand and the pipeline: with the pool's own speed. A replica sized by
// the trace's peak has none.
func (r *runner) service() features.Service {
	s := features.DefaultService
	if p := r.cfg.Pool; p != nil && p.Rates.PrefillTokensPerS > 0 {
		s.PrefillTokensPerS = p.Rates.PrefillTokensPerS
	}
	if p := r.cfg.Pool; p != nil && p.Rates.ITL > 0 {
		s.ITL = p.Rates.ITL
	}
	return s
}

// read passes the recorded data, or the opened trace, to do.
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
	defer func() { _ = x.Close() }() // opened for reading only
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
	if n.First != nil {
		r.trace.First = n.First.Error()
	}
	return nil
}

// watched wraps a log to report progress after each batch.
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
