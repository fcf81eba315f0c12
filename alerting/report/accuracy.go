package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// WindowMaxHorizon names the largest minute of forecaster.WindowFrom..WindowTo where a horizon is expected.
var WindowMaxHorizon = fmt.Sprintf("max%d_%d", forecaster.WindowFrom, forecaster.WindowTo)

// windowMax stands for that window among horizons in minutes; it sorts last.
const windowMax = forecaster.Horizon + 1

type scoreKey struct {
	seriesKey
	horizon int
}

type score struct {
	forecaster.Accumulator
	missing int
}

// score adds one forecast's outcomes that lie in the period.
func (b *builder) score(f *forecaster.Forecast) {
	origin := b.index(f.Origin)
	key := scoreKey{seriesKey: seriesKey{f.Key, f.Dimension}}
	demand := b.observed[key.seriesKey]
	last := at(demand, origin-1)
	for h := 1; h <= forecaster.Horizon; h++ {
		key.horizon = h
		target := origin + h - 1
		b.add(key, &f.Minute[h-1], target, at(demand, target), last)
	}
	key.horizon = windowMax
	// One minute's value is no forecast of a maximum: the rival is the largest of as many minutes before the origin.
	b.add(key, &f.WindowMax, origin+forecaster.WindowTo-1,
		largest(demand, origin+forecaster.WindowFrom-1, origin+forecaster.WindowTo),
		largest(demand, origin-(forecaster.WindowTo-forecaster.WindowFrom+1), origin))
}

// largest is the largest demand in minutes [from, to); NaN when one of them is not known.
func largest(demand []float64, from, to int) float64 {
	most := math.Inf(-1)
	for i := from; i < to; i++ {
		most = max(most, at(demand, i)) // NaN when one is
	}
	return most
}

// add scores one distribution, unless it was not kept; target is the last minute of its outcome.
func (b *builder) add(key scoreKey, q *forecaster.Quantiles, target int, outcome, last float64) {
	if slices.ContainsFunc(q[:], math.IsNaN) {
		return
	}
	if first, end := b.bounds(); target < first || target >= end {
		return
	}
	s := b.scores[key]
	if s == nil {
		s = &score{}
		b.scores[key] = s
	}
	if math.IsNaN(outcome) {
		s.missing++
		return
	}
	s.Add(outcome, q, last)
}

// accuracy gives the rows of a pool: the total first, then classes by name; dimensions in the table's order.
func (b *builder) accuracy(pool string) []Accuracy {
	var keys []scoreKey
	for k := range b.scores {
		if k.Pool == pool {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, c scoreKey) int {
		return cmp.Or(
			boolFirst(a.Class == features.TotalClass, c.Class == features.TotalClass),
			strings.Compare(a.Class, c.Class),
			cmp.Compare(rank(a.dimension), rank(c.dimension)),
			strings.Compare(a.dimension, c.dimension),
			cmp.Compare(a.horizon, c.horizon),
		)
	})
	rows := []Accuracy{}
	for _, k := range keys {
		s := b.scores[k]
		row := Accuracy{
			Class: k.Class, Dimension: k.dimension, Horizon: strconv.Itoa(k.horizon),
			Outcomes: s.N, Missing: s.missing, Mean: Number(s.SumY / float64(s.N)),
			WAPE: Number(s.WAPE()), Bias: Number(s.Bias()), Skill: Number(s.Skill()), Pinball: Number(s.MeanPinball()),
			Q80: covered(s, forecaster.L80), Q90: covered(s, forecaster.L90), Q95: covered(s, forecaster.L95),
		}
		if k.horizon == windowMax {
			row.Horizon = WindowMaxHorizon
		}
		if d, ok := features.DimensionByName(k.dimension); ok {
			row.Unit = d.Unit
		}
		rows = append(rows, row)
	}
	return rows
}

func covered(s *score, level int) Covered {
	share, low, high := s.Coverage(level)
	return Covered{Number(share), Number(low), Number(high)}
}

// rank is a dimension's place in the table; unknown ones come last.
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

func minutes(d time.Duration) Number { return Number(d.Minutes()) }
