package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// scoring is the series whose forecasts are being scored.
type scoring struct {
	seriesKey
	*forecaster.Scorer
	next int // first minute that is not observed
}

// storedMinutes are the minutes ahead of stored forecasts.
var storedMinutes = []int{5, 15, 30, 60}

// score adds one forecast. Forecasts come grouped by series, by origin.
func (b *builder) score(f *forecaster.Forecast) {
	key := seriesKey{f.Key, f.Dimension}
	if b.scoring == nil || b.scoring.seriesKey != key {
		b.endSeries()
		b.scoring = &scoring{seriesKey: key, Scorer: forecaster.NewScorer(b.from.Unix()/60, storedMinutes...)}
	}
	b.observe(b.index(f.Origin))
	b.scoring.Issue(f)
}

// observe passes the demand before a minute to the scorer.
func (b *builder) observe(until int) {
	m, base := b.scoring, b.base.Unix()/60
	demand := b.observed[m.seriesKey]
	for ; m.next < until; m.next++ {
		m.Observe(base+int64(m.next), demandAt(demand, m.next))
	}
}

// endSeries stores the scores of the current series.
func (b *builder) endSeries() {
	if b.scoring == nil {
		return
	}
	b.observe(b.end)
	for _, a := range b.scoring.Scores {
		if a.N+a.Missing > 0 {
			b.rows[b.scoring.seriesKey] = append(b.rows[b.scoring.seriesKey], accuracy(b.scoring.seriesKey, a))
		}
	}
	b.scoring = nil
}

// accuracy is the row of one horizon.
func accuracy(key seriesKey, a *forecaster.Accumulator) Accuracy {
	upper := a.Coverage(forecaster.L90)
	row := Accuracy{
		Class: key.Class, Dimension: key.dimension, Horizon: a.Horizon, Outcomes: a.N, Missing: a.Missing, Mean: Number(a.Mean()),
		WAPE: Number(a.WAPE()), Bias: Number(a.Bias()), Skill: Number(a.Skill()),
		Q90: Covered{Number(upper.Share), Number(upper.Low), Number(upper.High), Number(upper.Effective)},
	}
	if d, ok := features.DimensionByName(key.dimension); ok {
		row.Unit = d.Unit
	}
	return row
}

// accuracy returns the rows of a pool: the total first, then classes by name, dimensions in table order.
func (b *builder) accuracy(pool string) []Accuracy {
	var keys []seriesKey
	for k := range b.rows {
		if k.Pool == pool {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, c seriesKey) int {
		return cmp.Or(
			boolFirst(a.Class == features.TotalClass, c.Class == features.TotalClass),
			strings.Compare(a.Class, c.Class),
			cmp.Compare(rank(a.dimension), rank(c.dimension)),
			strings.Compare(a.dimension, c.dimension),
		)
	})
	rows := []Accuracy{}
	for _, k := range keys {
		rows = append(rows, b.rows[k]...)
	}
	return rows
}

// rank is a dimension's position in the table; unknown ones come last.
func rank(dimension string) int {
	i := slices.IndexFunc(features.Dimensions, func(d features.Dimension) bool { return d.Name == dimension })
	if i < 0 {
		return len(features.Dimensions)
	}
	return i
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
