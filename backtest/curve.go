package backtest

import (
	"cmp"
	"math"
	"slices"
)

// point is what one setting of a policy came to.
type point struct {
	saturated float64 // share of minutes
	hours     float64 // GPU-hours
}

func (a *Account) point() point { return point{a.SaturatedShare(), a.GPUHours} }

// curve is cost against attainment: the points that no other beats in both, by rising saturation and falling cost.
// Between two neighbours a pool that follows the one setting part of the time and the other the rest gets what lies on
// the straight line, so that is how it is read.
type curve []point

func newCurve(points []point) curve {
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.saturated, b.saturated), cmp.Compare(a.hours, b.hours))
	})
	var c curve
	for _, p := range points {
		if len(c) == 0 || p.hours < c[len(c)-1].hours {
			c = append(c, p)
		}
	}
	return c
}

// hoursAt is the cost of a share of saturated minutes: that of the cheapest setting when all saturate less; +Inf when
// none saturates as little.
func (c curve) hoursAt(saturated float64) float64 {
	if len(c) == 0 || c[0].saturated > saturated {
		return math.Inf(1)
	}
	for i := 1; i < len(c); i++ {
		if a, b := c[i-1], c[i]; b.saturated > saturated {
			return a.hours + (b.hours-a.hours)*(saturated-a.saturated)/(b.saturated-a.saturated)
		}
	}
	return c[len(c)-1].hours
}

// saturatedAt is the share of saturated minutes that a cost buys: that of the least saturated setting when all cost
// less; +Inf when none is as cheap.
func (c curve) saturatedAt(hours float64) float64 {
	if len(c) == 0 || c[len(c)-1].hours > hours {
		return math.Inf(1)
	}
	for i := len(c) - 1; i > 0; i-- {
		if a, b := c[i-1], c[i]; a.hours > hours {
			return a.saturated + (b.saturated-a.saturated)*(hours-a.hours)/(b.hours-a.hours)
		}
	}
	return c[0].saturated
}
