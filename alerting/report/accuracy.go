package report

import (
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// scoring is the series whose forecasts are being scored.
type scoring struct {
	features.Key
	dimension string
	*forecaster.Scorer
	next int // first minute that is not observed
}

// score adds one forecast. Those of a series come one after the other, by origin.
func (b *builder) score(f *forecaster.Forecast) {
	if b.scoring == nil || b.scoring.Key != f.Key || b.scoring.dimension != f.Dimension {
		b.endSeries()
		scorer := forecaster.NewScorer(b.from.Unix()/60, 5, 15, 30, 60) // the stored ones
		b.scoring = &scoring{f.Key, f.Dimension, scorer, 0}
	}
	b.observe(b.index(f.Origin))
	b.scoring.Issue(f)
}

// observe passes the demand before a minute to the scorer.
func (b *builder) observe(until int) {
	x, base := b.scoring, b.base.Unix()/60
	demand := b.pool(x.Pool).demand[series{x.Class, x.dimension}]
	for ; x.next < until; x.next++ {
		x.Observe(base+int64(x.next), at(demand, x.next))
	}
}

// endSeries adds the scores of the current series to its pool.
func (b *builder) endSeries() {
	x := b.scoring
	if x == nil {
		return
	}
	b.observe(b.end)
	d, _ := features.DimensionByName(x.dimension)
	p := b.pool(x.Pool)
	for _, a := range x.Scores {
		if a.N+a.Missing > 0 {
			p.accuracy = append(p.accuracy, Accuracy{
				Class: x.Class, Dimension: x.dimension, Unit: d.Unit, Horizon: a.Horizon,
				Outcomes: a.N, Missing: a.Missing, Mean: Number(a.Mean()),
				WAPE: Number(a.WAPE()), Bias: Number(a.Bias()), Skill: Number(1 - a.RelativeMAE()),
				Q90: a.Coverage(forecaster.L90),
			})
		}
	}
}
