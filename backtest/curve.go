package backtest

import (
	"cmp"
	"math"
	"slices"
)

// point is the result of one setting of a policy.
type point struct {
	saturated float64 // share of minutes
	hours     float64 // GPU-hours
}

func (a *Account) point() point { return point{a.SaturatedShare(), a.GPUHours} }

// curve is cost against saturation: the points that are not worse than another in both, by rising saturation and
// falling cost. It is linear between points, because a pool can use each of two settings for part of the time.
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

// hoursAt returns the cost of a share of saturated minutes: that of the cheapest setting if all saturate less; +Inf if
// all saturate more.
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

// saturatedAt returns the share of saturated minutes for a cost: that of the least saturated setting if all cost less;
// +Inf if all cost more.
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
