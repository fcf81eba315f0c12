package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

const (
	everywhereGrid  = 5      // minutes between the origins of the comparison at more origins
	everywhereBlock = 6 * 60 // minutes of a block of the bootstrap
	everywhereDraws = 2000
	everywhereShare = .9 // the share of draws within an interval
	clearlyBetter   = 1.03
)

// peerLosses has the losses of slow forecasters at more than the drawn origins. -peers scores the forecasts that it
// finds in forewarm/everywhere/SERIES.
const peerLosses = "testdata/peers_everywhere.csv"

// cheapPeer is a forecaster that is fast enough for every origin. It forecasts a point, with the quantiles of its own
// errors around it. Without a point function, it forecasts the quantiles of the last hour's minutes.
type cheapPeer struct {
	name  string
	least int                       // the fewest minutes that it needs
	point func(y []float64) float64 // from the known minutes
}

var cheapPeers = []cheapPeer{
	{"naive", 1, func(y []float64) float64 { return y[len(y)-1] }},
	{"mean15", 15, func(y []float64) float64 { return stat.Mean(y[len(y)-15:], nil) }},
	{"mean60", 60, func(y []float64) float64 { return stat.Mean(y[len(y)-60:], nil) }},
	{"ses", 181, func(y []float64) float64 {
		y = y[max(0, len(y)-181):]
		level := y[0]
		for _, x := range y {
			level += .05 * (x - level)
		}
		return level
	}},
	{name: "hist1h", least: 60},
}

// cheap is a cheapPeer on one series.
type cheap struct {
	cheapPeer
	y      []float64
	points []float64 // by the last known minute
}

// newCheap returns nil for a forecaster that is not in cheapPeers.
func newCheap(name string, y []float64) *cheap {
	i := slices.IndexFunc(cheapPeers, func(x cheapPeer) bool { return x.name == name })
	if i < 0 {
		return nil
	}
	c := &cheap{cheapPeer: cheapPeers[i], y: y}
	if c.point != nil {
		c.points = make([]float64, len(y))
		for m := c.least - 1; m < len(y); m++ {
			c.points[m] = c.point(y[:m+1])
		}
	}
	return c
}

// quantiles returns the quantiles of minutes 15 to 30 from origin o, and the largest of them for the window maximum.
func (c *cheap) quantiles(o int) (q quantiles) {
	for h := forecaster.WindowFrom; h <= forecaster.WindowTo; h++ {
		if c.points == nil && h > forecaster.WindowFrom {
			q[h-1] = q[h-2]
		} else {
			q[h-1] = c.at(o, h)
		}
	}
	q.largestOfQuantiles()
	return q
}

// at returns the quantiles of lead h. Errors are of every seventh origin of the last two days, at leads h±2.
func (c *cheap) at(o, h int) (q [len(forecaster.ScoredLevels)]float64) {
	const days, every = 2880, 7
	var x []float64
	point := 0.0
	if c.points == nil {
		x = slices.Clone(c.y[o-c.least : o])
	} else {
		point = c.points[o-1]
		for m := max(c.least, o-1-forecastMinutes-days); m < o-forecastMinutes; m += every {
			for g := h - 2; g <= min(h+2, forecastMinutes); g++ {
				x = append(x, c.y[m+g]-c.points[m])
			}
		}
	}
	slices.Sort(x)
	for k, level := range forecaster.ScoredLevels {
		at := forecaster.Levels[level] * float64(len(x)-1)
		lo := int(at)
		q[k] = max(0, point+x[lo]+(at-float64(lo))*(x[min(lo+1, len(x)-1)]-x[lo]))
	}
	return q
}

// lossAt is the loss of the minutes and of their maximum from one origin.
type lossAt struct {
	origin        int
	minutes, peak float64
}

func (s *peerSeries) lossAt(o int, q *quantiles) lossAt {
	one := newTally(s)
	one.add(o, q)
	return lossAt{o, one.minutes, one.peak}
}

// outcome is the result of Forewarm's forecast from one origin.
type outcome struct {
	lossAt
	covered [2]float64 // 1 if the 90 and the 95 % quantile covered the window maximum
	fell    bool       // the mean of the two hours before is less than half that of the eight hours before them
}

func (s *peerSeries) outcome(o int, q *quantiles) outcome {
	w := outcome{lossAt: s.lossAt(o, q)}
	most := slices.Max(ahead(s.y, o))
	for i := range w.covered {
		if most <= q[forecastMinutes][2+i] {
			w.covered[i] = 1
		}
	}
	if o >= 600 {
		now, before := stat.Mean(s.y[o-120:o], nil), stat.Mean(s.y[o-600:o-120], nil)
		w.fell = now > 0 && now < before/2
	}
	return w
}

// within is a ratio and its interval.
type within struct{ is, from, to float64 }

func (w within) String() string { return fmt.Sprintf("%.2f (%.2f–%.2f)", w.is, w.from, w.to) }

func (w within) percent() string {
	return fmt.Sprintf("%.1f (%.1f–%.1f)", 100*w.is, 100*w.from, 100*w.to)
}

// sixHours adds up pairs of numbers over blocks of six hours of a trace.
type sixHours struct {
	at   map[string]int
	sums [][2]float64
}

func (b *sixHours) add(trace string, origin int, x, y float64) {
	if b.at == nil {
		b.at = map[string]int{}
	}
	key := fmt.Sprint(trace, origin/everywhereBlock)
	i, ok := b.at[key]
	if !ok {
		i = len(b.sums)
		b.at[key] = i
		b.sums = append(b.sums, [2]float64{})
	}
	b.sums[i][0] += x
	b.sums[i][1] += y
}

// ratio divides the sums. The interval is from a block bootstrap (Künsch 1989, doi:10.1214/aos/1176347265), here of
// blocks that do not overlap: neighbouring minutes are not independent. O(draws × blocks).
func (b *sixHours) ratio() within {
	var all [2]float64
	for _, x := range b.sums {
		all[0] += x[0]
		all[1] += x[1]
	}
	r := rand.New(rand.NewPCG(1, uint64(len(b.sums))))
	ratios := make([]float64, everywhereDraws)
	for i := range ratios {
		var drawn [2]float64
		for range b.sums {
			x := b.sums[r.IntN(len(b.sums))]
			drawn[0] += x[0]
			drawn[1] += x[1]
		}
		ratios[i] = over(drawn[0], drawn[1])
	}
	slices.Sort(ratios)
	at := func(p float64) float64 { return ratios[int(math.Round(p*(everywhereDraws-1)))] }
	return within{over(all[0], all[1]), at((1 - everywhereShare) / 2), at((1 + everywhereShare) / 2)}
}

// thirds are the parts of a series that are compared.
var thirds = [...]string{"second third", "last third"}

func (s *peerSeries) third(o int) int {
	if o < 2*len(s.y)/3 {
		return 0
	}
	return 1
}

// everywhere compares Forewarm at more origins, on each series where another forecaster is clearly better at the drawn
// ones. The other is run again if it is cheap, or its losses are in kept. Then it writes the coverage of the window
// maximum.
func everywhere(b *strings.Builder, all []*peerSeries, of map[string]map[string]figure, kept map[[2]string][]lossAt) {
	var rows []string
	for _, s := range all {
		for _, x := range []struct {
			what string
			at   func(f figure) float64
			loss func(l lossAt) float64
		}{{"minutes 15–30", byPinball, func(l lossAt) float64 { return l.minutes }}, {"largest", byPeak, func(l lossAt) float64 { return l.peak }}} {
			best, mine := bestOther(of[s.name()], x.at), x.at(of[s.name()][own])
			if best == nil || mine <= clearlyBetter*x.at(*best) {
				continue
			}
			if r, ok := s.comparedWith(best.peer, kept[[2]string{s.name(), best.peer}], x.loss); ok {
				rows = append(rows, fmt.Sprintf("| %s, %s | %s | %.2f | %s | %s |", s.name(), x.what, best.peer, mine/x.at(*best), r[1], r[0]))
			}
		}
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "\nFifty origins are few. So the series where the best of the others is more than %.0f %% better in the tables above are scored at more origins, if that\n"+
			"forecaster can be run there. The table has Forewarm's loss divided by the other's loss, at the %d origins, and at every fifth minute of the last and of the\n"+
			"second third (every thirtieth for those that take seconds for each). In brackets: the %.0f %% bootstrap interval, with blocks of six hours.\n"+
			"\n| series | compared with | %d origins | last third | second third |\n|---|---|---:|---:|---:|\n%s\n", 100*(clearlyBetter-1), peerOrigins, 100*everywhereShare, peerOrigins, strings.Join(rows, "\n"))
	}
	coverage(b, all)
}

// comparedWith returns Forewarm's loss divided by that of another forecaster, for each third. ok is false without
// losses of the other.
func (s *peerSeries) comparedWith(peer string, kept []lossAt, loss func(l lossAt) float64) (r [len(thirds)]within, ok bool) {
	losses := map[int]float64{}
	for _, l := range kept {
		losses[l.origin] = loss(l)
	}
	c := newCheap(peer, s.y)
	var sums [len(thirds)]sixHours
	for _, w := range s.everywhere {
		x, known := losses[w.origin]
		if c != nil {
			q := c.quantiles(w.origin)
			x, known = loss(s.lossAt(w.origin, &q)), true
		}
		if known {
			ok = true
			sums[s.third(w.origin)].add("", w.origin, loss(w.lossAt), x)
		}
	}
	for i := range r {
		r[i] = sums[i].ratio()
	}
	return r, ok
}

// coverage writes the coverage of the quantiles of the window maximum, at all origins and after falls.
func coverage(b *strings.Builder, all []*peerSeries) {
	var sums [len(thirds)][2][2]sixHours // by third, whether it fell, and level
	fell := 0
	for _, s := range all {
		for _, w := range s.everywhere {
			for i, x := range w.covered {
				sums[s.third(w.origin)][0][i].add(s.trace, w.origin, x, 1)
				if w.fell {
					sums[s.third(w.origin)][1][i].add(s.trace, w.origin, x, 1)
					fell++
				}
			}
		}
	}
	if fell == 0 {
		return
	}
	fmt.Fprintf(b, "\nCoverage of the 90 and the 95 %% quantile of the window maximum, in percent, at all these origins and at the origins after a fall. After a fall, the mean\n"+
		"of the two hours before is less than half that of the eight hours before them.\n\n| | 90 %% | 95 %% | after falls: 90 %% | 95 %% |\n|---|---:|---:|---:|---:|\n")
	for i := len(thirds) - 1; i >= 0; i-- {
		fmt.Fprintf(b, "| %s |", thirds[i])
		for f := range sums[i] {
			for l := range sums[i][f] {
				fmt.Fprintf(b, " %s |", sums[i][f][l].ratio().percent())
			}
		}
		b.WriteString("\n")
	}
}

// checkCheap compares the scores of cheapPeers with those of the original programs.
func (s *peerSeries) checkCheap(t *testing.T, figures figures) {
	t.Helper()
	for _, x := range cheapPeers {
		want, ok := figures[[2]string{s.name(), x.name}]
		if !ok {
			continue
		}
		a, c := newTally(s), newCheap(x.name, s.y)
		for _, o := range s.origins {
			q := c.quantiles(o)
			a.add(o, &q)
		}
		got := a.figure(x.name)
		if math.Abs(got.mean/want.mean-1) < 1e-4 && (math.Abs(got.peak/want.peak-1) > .01 || math.Abs(got.pinball/want.pinball-1) > .01) {
			t.Errorf("%s: %s has the scores %.3f and %.3f, its original program %.3f and %.3f", s.name(), x.name, got.pinball, got.peak, want.pinball, want.peak)
		}
	}
}

// peersEverywhere scores the forecasts of others at more than the drawn origins.
func (s *peerSeries) peersEverywhere(t *testing.T, kept map[[2]string][]lossAt) {
	files, err := filepath.Glob(filepath.Join(*peerDir, "forewarm", "everywhere", s.name(), "*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		f, err := readPeer(path)
		if err != nil {
			t.Fatal(err)
		}
		var losses []lossAt
		for o, q := range f.at {
			if f.complete(o) {
				losses = append(losses, s.lossAt(o, q))
			}
		}
		slices.SortFunc(losses, func(a, b lossAt) int { return a.origin - b.origin })
		kept[[2]string{s.name(), strings.TrimSuffix(filepath.Base(path), ".csv")}] = losses
	}
}

const lossesHeader = "series,peer,origin,minutes,peak"

func readLosses(path string) (map[[2]string][]lossAt, error) {
	kept := map[[2]string][]lossAt{}
	rows, err := readRows(path)
	if err != nil {
		return kept, err
	}
	for _, row := range rows[1:] {
		var l lossAt
		if _, err := fmt.Sscan(strings.Join(row[2:], " "), &l.origin, &l.minutes, &l.peak); err != nil {
			return kept, fmt.Errorf("%s: %v: %w", path, row, err)
		}
		kept[[2]string{row[0], row[1]}] = append(kept[[2]string{row[0], row[1]}], l)
	}
	return kept, nil
}

func writeLosses(path string, kept map[[2]string][]lossAt) error {
	var lines []string
	for key, losses := range kept {
		var b strings.Builder
		for _, l := range losses {
			b.WriteString(key[0] + "," + key[1] + "," + strconv.Itoa(l.origin))
			fmt.Fprintf(&b, ",%.5g,%.5g\n", l.minutes, l.peak)
		}
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	return os.WriteFile(path, []byte(lossesHeader+"\n"+strings.Join(lines, "")), 0o644)
}

// TestCheapPeers: naive learns its constant error on a ramp; the means of a constant are this constant; hist1h has the
// percentiles of the last sixty minutes.
func TestCheapPeers(t *testing.T) {
	ramp, flat := make([]float64, 600), make([]float64, 600)
	for i := range ramp {
		ramp[i], flat[i] = float64(i), 7
	}
	const o = 500
	naive := newCheap("naive", ramp).quantiles(o)
	for h := forecaster.WindowFrom; h <= forecaster.WindowTo-2; h++ { // the last two have no leads h+2
		if got := naive[h-1][0]; got != ramp[o+h-1] {
			t.Errorf("median of minute %d is %g on a ramp, want %g", h, got, ramp[o+h-1])
		}
	}
	for _, name := range []string{"mean15", "mean60", "ses", "hist1h"} {
		for i, got := range newCheap(name, flat).quantiles(o)[forecastMinutes] {
			if math.Abs(got-7) > 1e-9 {
				t.Errorf("%s: quantile %d of the window maximum is %g, want 7 as in all minutes", name, i, got)
			}
		}
	}
	if got, want := newCheap("hist1h", ramp).quantiles(o)[forecastMinutes], [...]float64{469.5, 487.2, 493.1, 496.05, 498.41}; got != want {
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-9 {
				t.Errorf("quantile %d of the last hour is %g, want %g", i, got[i], want[i])
			}
		}
	}
	if newCheap("r_auto.arima", flat) != nil {
		t.Error("r_auto.arima counts as cheap")
	}
}

// TestRatioOfBlocks: the interval of a ratio is narrow if all blocks have the same ratio. It includes 1 if a single
// block makes the difference.
func TestRatioOfBlocks(t *testing.T) {
	var same, one sixHours
	for o := 0; o < 40*everywhereBlock; o += everywhereBlock / 4 {
		same.add("t", o, 1+float64(o%7), 2+2*float64(o%7))
		mine := .5
		if o < everywhereBlock {
			mine = 30
		}
		one.add("t", o, mine, 1)
	}
	if r := same.ratio(); r != (within{.5, .5, .5}) {
		t.Errorf("half the loss everywhere: %v", r)
	}
	if r := one.ratio(); len(one.sums) != 40 || !(r.is > 1 && r.from < 1 && r.to > 1.5) {
		t.Errorf("one bad block of %d: %v", len(one.sums), r)
	}
}

// TestKeptLosses: kept losses of another forecaster are compared with Forewarm's at the same origins, for each third.
func TestKeptLosses(t *testing.T) {
	s := &peerSeries{trace: "trace", seriesKey: seriesKey{features.TotalClass, features.DimDecode}, y: make([]float64, 3000)}
	var losses []lossAt
	for o := 1000; o < 2900; o += everywhereGrid {
		s.everywhere = append(s.everywhere, outcome{lossAt: lossAt{o, 3, 1}})
		if o%30 == 0 {
			x := lossAt{o, 6, 2}
			if o >= 2000 {
				x.peak = 4
			}
			losses = append(losses, x)
		}
	}
	path := filepath.Join(t.TempDir(), "losses.csv")
	key := [2]string{s.name(), "arima"}
	if err := writeLosses(path, map[[2]string][]lossAt{key: losses}); err != nil {
		t.Fatal(err)
	}
	kept, err := readLosses(path)
	if err != nil || !slices.Equal(kept[key], losses) {
		t.Fatalf("kept %v (%v)", kept, err)
	}
	r, ok := s.comparedWith("arima", kept[key], func(l lossAt) float64 { return l.peak })
	if want := [...]within{{.5, .5, .5}, {.25, .25, .25}}; !ok || r != want {
		t.Errorf("%v %v, want %v", r, ok, want)
	}
	if _, ok := s.comparedWith("other", nil, func(l lossAt) float64 { return l.peak }); ok {
		t.Error("a forecaster without losses is compared")
	}
}
