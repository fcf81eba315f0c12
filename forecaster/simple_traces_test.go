package forecaster

import (
	"cmp"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/features"
)

// firstHours is how many minutes of a class count as its first.
const firstHours = 360

// TestTracesBesideSimple lists the series of public traces on which the model is more than 2 % worse than the last
// value, or more than 3 % worse than the best of the other simple forecasters, with the standard errors of both ratios,
// for minutes 15 to 30 and the largest of them. Skipped unless FOREWARM_BESIDE is set: "all" takes the series and
// origins of TestAccuracy, with the same variables; "young" takes the first six hours of every class that begins two
// hours after its trace or later, in the first two thirds.
func TestTracesBesideSimple(t *testing.T) {
	which, part, dir := os.Getenv("FOREWARM_BESIDE"), os.Getenv("FOREWARM_ACCURACY"), os.Getenv("FOREWARM_TRACES")
	if which == "" || part == "" || dir == "" {
		t.Skip("set FOREWARM_BESIDE to all or young, FOREWARM_ACCURACY and FOREWARM_TRACES, to list where simple forecasters do better")
	}
	step := 14
	if s := os.Getenv("FOREWARM_ACCURACY_STEP"); s != "" {
		step, _ = strconv.Atoi(s)
	}
	traces := slices.Clone(accuracyTraces)
	if which == "young" {
		for i := range accuracyTraces {
			accuracyTraces[i].every = 1
		}
	}
	defer func() { accuracyTraces = traces }()
	all := traceSeries(t, dir, os.Getenv("FOREWARM_ACCURACY_ONLY"))
	rows := make([]*compared, len(all))
	inParallel(len(all), func(i int) { rows[i] = all[i].compare(all[i].comparedOrigins(which, part, step)) })
	reportCompared(t, rows)
}

// comparedOrigins are the origins at which a series is compared.
func (s *traceSerie) comparedOrigins(which, part string, step int) (origins []int) {
	if which == "young" {
		for o := s.first + minKnown; s.first >= 120 && o < min(s.first+firstHours, len(s.y)*2/3) && o+WindowTo <= len(s.y); o += step {
			origins = append(origins, o)
		}
		return origins
	}
	from, to := 1.0/3, 2.0/3
	if part == "check" {
		from, to = 2.0/3, 1
	}
	return slices.AppendSeq(origins, s.origins(from, to, step))
}

// compared has the losses of forecasts of a series from some origins, by forecaster. The model is the last.
type compared struct {
	trace, name string
	origins     []int
	losses      [][]lossAt
}

func (s *traceSerie) compare(origins []int) *compared {
	if len(origins) == 0 {
		return nil
	}
	c := &compared{trace: s.trace, name: s.trace + "/" + s.class + "/" + s.dim, origins: origins}
	for i := range simples {
		c.losses = append(c.losses, simples[i].losses(s.y, origins))
	}
	x := newSeries(features.Key{Pool: "pool", Class: s.class}, 0)
	c.losses = append(c.losses, ownLosses(x, s.y, s.start, s.first, origins))
	return c
}

var lossKinds = [...]struct {
	name string
	of   func(l lossAt) float64
}{{"minutes", func(l lossAt) float64 { return l.minutes }}, {"largest", func(l lossAt) float64 { return l.peak }}}

func (c *compared) total(forecaster int, of func(lossAt) float64) (sum float64) {
	for _, l := range c.losses[forecaster] {
		sum += of(l)
	}
	return sum
}

// ratioTo is the model's loss divided by that of a forecaster, with its standard error: that of a ratio, to first
// order, from sums over blocks of six hours, or of an eighth of a shorter span. Blocks are taken as independent
// (Cochran 1977, Sampling Techniques, §6.4). The error is NaN with a single block.
func (c *compared) ratioTo(forecaster int, of func(lossAt) float64) (r, se float64) {
	own, other := c.total(len(simples), of), c.total(forecaster, of)
	if other == 0 {
		return relative(own, other), math.NaN()
	}
	r = own / other
	block := max(30, min(360, (c.origins[len(c.origins)-1]-c.origins[0])/8))
	off := map[int]float64{} // the model's loss in a block, minus that expected by the ratio
	for i, o := range c.origins {
		off[o/block] += of(c.losses[len(simples)][i]) - r*of(c.losses[forecaster][i])
	}
	sum, n := 0.0, float64(len(off))
	for i := range c.origins {
		b := c.origins[i] / block
		sum += off[b] * off[b]
		off[b] = 0 // each block counts once, in the order of time
	}
	if n < 2 {
		return r, math.NaN()
	}
	return r, math.Sqrt(sum*n/(n-1)) / other
}

// reportCompared logs the series on which the model is worse, and geometric means by trace.
func reportCompared(t *testing.T, rows []*compared) {
	rows = slices.DeleteFunc(rows, func(c *compared) bool { return c == nil })
	type mean struct{ log, n float64 }
	means := map[string]*[len(lossKinds)]mean{}
	type line struct {
		worst float64
		text  string
	}
	for m, k := range lossKinds {
		var lines []line
		for _, c := range rows {
			last, lastError := c.ratioTo(0, k.of)
			best := 1
			for i := range simples[1:] {
				if c.total(i+1, k.of) < c.total(best, k.of) {
					best = i + 1
				}
			}
			beside, besideError := c.ratioTo(best, k.of)
			for _, name := range []string{c.trace, "all"} {
				if means[name] == nil {
					means[name] = new([len(lossKinds)]mean)
				}
				if !math.IsInf(last, 0) {
					means[name][m].log += math.Log(max(last, leastRatio))
					means[name][m].n++
				}
			}
			if last > 1.02 || beside > 1.03 {
				lines = append(lines, line{max(last/1.02, beside/1.03), strings.Join([]string{
					c.name, strconv.Itoa(len(c.origins)) + " origins", "last " + ratioText(last, lastError), simples[best].name + " " + ratioText(beside, besideError),
				}, "  ")})
			}
		}
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.worst, a.worst) })
		t.Logf("%s: worse on %d of %d series", k.name, len(lines), len(rows))
		for _, l := range lines {
			t.Log("  " + l.text)
		}
	}
	names := make([]string, 0, len(means))
	for name := range means {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		x := means[name]
		t.Logf("%-40s %3.0f series: minutes %.4f, largest %.4f of the last value", name, x[0].n, math.Exp(x[0].log/x[0].n), math.Exp(x[1].log/x[1].n))
	}
}

func ratioText(r, se float64) string {
	return strconv.FormatFloat(r, 'f', 3, 64) + " ± " + strconv.FormatFloat(se, 'f', 3, 64)
}
