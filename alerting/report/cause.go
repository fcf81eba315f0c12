package report

import (
	"fmt"
	"math"

	"github.com/forewarm/forewarm/features"
)

const (
	// causeBefore is the number of minutes before a saturation that its load is compared with.
	causeBefore = 60
	// causeShare is the least share of a rise that makes one class its cause.
	causeShare = .5
	// causeRise is the least factor that counts as a rise of a pool's load.
	causeRise = 1.1
)

// change is the mean of the known minutes of a series, before a saturation and during it.
type change struct{ before, during float64 }

func (c change) rise() float64   { return c.during - c.before }
func (c change) factor() float64 { return c.during / c.before }

// changeOf compares the minutes [start, last] with the hour before them.
func changeOf(demand []float64, e run) change {
	mean := func(from, to int) float64 {
		sum, n := 0., 0.
		for m := from; m < to; m++ {
			if v := at(demand, m); !math.IsNaN(v) {
				sum, n = sum+v, n+1
			}
		}
		return sum / n
	}
	return change{mean(e.start-causeBefore, e.start), mean(e.start, e.last+1)}
}

// cause names the class that raised the load of a resource in an episode, and how; "" if demand is unknown.
func (b *builder) cause(pool, resource string, e run) string {
	whole := changeOf(b.observed[totalOf(pool, resource)], e)
	if f := whole.factor(); math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	} else if f < causeRise {
		return "Too few replicas were ready; the load rose little."
	}
	var first change
	class := ""
	for k, values := range b.observed {
		if k.Pool != pool || k.dimension != resource || k.Class == features.TotalClass {
			continue
		}
		c := changeOf(values, e)
		if r := c.rise(); r > first.rise() || class != "" && r == first.rise() && k.Class < class {
			first, class = c, k.Class
		}
	}
	if first.rise() < causeShare*whole.rise() {
		return fmt.Sprintf("Several classes rose: together to %.1f times the load of the hour before.", whole.factor())
	}
	requests := changeOf(b.observed[seriesKey{features.Key{Pool: pool, Class: class}, features.DimRequests}], e).factor()
	switch each := first.factor() / requests; {
	case first.before == 0:
		return fmt.Sprintf("Class %s began.", class)
	case resource == features.DimRequests || math.IsNaN(each) || math.Abs(each-1) < .05:
		return fmt.Sprintf("Class %s rose to %.1f times its load of the hour before.", class, first.factor())
	default:
		return fmt.Sprintf("Class %s rose to %.1f times its load of the hour before: %.1f times the requests, each %.1f times as large.", class, first.factor(), requests, each)
	}
}
