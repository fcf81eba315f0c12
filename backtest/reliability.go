package backtest

import (
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// Reliability is how far the probabilities and times of projections can be taken at their word; see
// forecaster.Reliability. Projections of all settings of Forewarm's knob count, each against the supply that it assumed.
type Reliability struct {
	Bins []ReliabilityBin `json:"bins"`
	ETA  []ETACoverage    `json:"eta"`
}

// ReliabilityBin are the projections, of one resource and minute each, that stated about the same probability.
type ReliabilityBin struct {
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	N      int     `json:"n"`
	Stated Number  `json:"stated"`
	Came   Number  `json:"came"`

	Windows int    `json:"windows"` // that do not overlap
	Low     Number `json:"low"`     // of came with a probability of 90 %, were windows all that it is known from
	High    Number `json:"high"`
}

// ETACoverage is, of the times stated as the Level quantile of the time to saturation, by how many it had come.
type ETACoverage struct {
	Level float64 `json:"level"`
	N     int     `json:"n"`
	Came  Number  `json:"came"`

	Windows int    `json:"windows"`
	Low     Number `json:"low"`
	High    Number `json:"high"`
}

// judge observes the minute before a tick, and takes down the pipeline's projections.
func (r *runner) judge(t time.Time, projections []forecaster.Projection) {
	before := t.Add(-features.Minute)
	load := r.demand.At(before)
	r.reliability.Observe(before.Unix()/60, load.Of)
	for i := range projections {
		r.issue(t, &projections[i])
	}
}

// issue takes down a projection that is over before the run is.
func (r *runner) issue(t time.Time, p *forecaster.Projection) {
	if !t.Before(r.scores.from) && !t.Add(forecaster.Horizon*features.Minute).After(r.until) {
		r.reliability.Issue(p, &r.pool.Warmup, p.Lead+r.cfg.Decision.Hold)
	}
}

func (r *runner) reliabilityTable() *Reliability {
	bins, eta := r.reliability.Table()
	out := &Reliability{}
	for _, b := range bins {
		out.Bins = append(out.Bins, ReliabilityBin{b.From, b.To, b.N, Number(b.Stated), Number(b.Observed), b.Windows, Number(b.Low), Number(b.High)})
	}
	for _, e := range eta {
		out.ETA = append(out.ETA, ETACoverage{e.Level, e.N, Number(e.Observed), e.Windows, Number(e.Low), Number(e.High)})
	}
	return out
}
