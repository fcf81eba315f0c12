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
	everywhereGrid  = 5      // minutes between the origins at which forecasters are compared beyond the drawn ones
	everywhereBlock = 6 * 60 // minutes that are drawn together for an interval
	everywhereDraws = 2000
	everywhereShare = .9 // of draws within an interval
	clearlyAhead    = 1.03
)

// peerLosses is where losses of other forecasters at more than the drawn origins are kept, of those that take seconds
// for each; -peers scores what it finds in forewarm/everywhere/SERIES.
const peerLosses = "testdata/peers_everywhere.csv"

// cheapPeer is one of the other forecasters that cost so little that it can be asked at every origin: a point, from the
// minutes that are known, and the quantiles of its own errors around it; or, without one, those of the last hour's
// minutes.
type cheapPeer struct {
	name  string
	least int // minutes that it takes
	point func(y []float64) float64
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

// cheap is such a forecaster on one series.
type cheap struct {
	cheapPeer
	y      []float64
	points []float64 // by the minute known last
}

// newCheap is nil for a forecaster that is not cheap.
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

// quantiles are those of minutes 15 to 30 from origin o, and the largest of them for their maximum.
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

// at are the quantiles of lead h. Errors are those of the last two days, every seventh origin, leads pooled ±2.
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

// widely is what came of Forewarm's forecast from one origin, drawn or not.
type widely struct {
	lossAt
	most [2]float64 // 1 where the 90 and the 95 % quantile of the window maximum covered it
	fell bool       // the mean of the two hours before was less than half that of the eight before them
}

func (s *peerSeries) widely(o int, q *quantiles) widely {
	w := widely{lossAt: s.lossAt(o, q)}
	most := slices.Max(ahead(s.y, o))
	for i := range w.most {
		if most <= q[forecastMinutes][2+i] {
			w.most[i] = 1
		}
	}
	if o >= 600 {
		now, before := stat.Mean(s.y[o-120:o], nil), stat.Mean(s.y[o-600:o-120], nil)
		w.fell = now > 0 && now < before/2
	}
	return w
}

// within is a ratio, and the interval that it lies in.
type within struct{ is, from, to float64 }

func (w within) String() string { return fmt.Sprintf("%.2f (%.2f–%.2f)", w.is, w.from, w.to) }

func (w within) percent() string {
	return fmt.Sprintf("%.1f (%.1f–%.1f)", 100*w.is, 100*w.from, 100*w.to)
}

// sixHours add up pairs over six hours of a trace each.
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

// ratio divides the sums. For the interval blocks are drawn with replacement (block bootstrap: Künsch 1989,
// doi:10.1214/aos/1176347265, here of blocks that do not overlap), because neighbours have much in common.
// O(draws × blocks).
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

// thirds are the second third of a series and the last.
var thirds = [...]string{"second third", "last third"}

func (s *peerSeries) third(o int) int {
	if o < 2*len(s.y)/3 {
		return 0
	}
	return 1
}

// everywhere writes, for each series on which another forecaster does clearly better at the drawn origins, whether that
// is so at others, as far as it can be asked there or its losses are kept; then what the quantiles of the window
// maximum cover.
func everywhere(b *strings.Builder, all []*peerSeries, of map[string]map[string]figure, kept map[[2]string][]lossAt) {
	var rows []string
	for _, s := range all {
		for _, x := range []struct {
			what string
			at   func(f figure) float64
			loss func(l lossAt) float64
		}{{"minutes 15–30", byPinball, func(l lossAt) float64 { return l.minutes }}, {"largest", byPeak, func(l lossAt) float64 { return l.peak }}} {
			best, mine := bestOther(of[s.name()], x.at), x.at(of[s.name()][own])
			if best == nil || mine <= clearlyAhead*x.at(*best) {
				continue
			}
			if r, ok := s.beside(best.peer, kept[[2]string{s.name(), best.peer}], x.loss); ok {
				rows = append(rows, fmt.Sprintf("| %s, %s | %s | %.2f | %s | %s |", s.name(), x.what, best.peer, mine/x.at(*best), r[1], r[0]))
			}
		}
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "\nFifty origins are few. Where the best of the others is more than %.0f %% ahead in the tables above, and can be asked at more origins:\n"+
			"Forewarm's loss over its, at the %d, at every fifth minute of the last third and of the second (every thirtieth beside those that take\n"+
			"seconds for each), and within what it lies with %.0f %% (blocks of six hours, drawn again).\n"+
			"\n| series | beside | %d origins | last third | second third |\n|---|---|---:|---:|---:|\n%s\n", 100*(clearlyAhead-1), peerOrigins, 100*everywhereShare, peerOrigins, strings.Join(rows, "\n"))
	}
	coverage(b, all)
}

// beside is Forewarm's loss over that of another, third by third; false when that is unknown.
func (s *peerSeries) beside(peer string, kept []lossAt, loss func(l lossAt) float64) (r [len(thirds)]within, ok bool) {
	losses := map[int]float64{}
	for _, l := range kept {
		losses[l.origin] = loss(l)
	}
	c := newCheap(peer, s.y)
	var sums [len(thirds)]sixHours
	for _, w := range s.wide {
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

// coverage writes what the quantiles of the window maximum cover, and what they do after falls.
func coverage(b *strings.Builder, all []*peerSeries) {
	var sums [len(thirds)][2][2]sixHours // by third, whether it fell, and level
	fell := 0
	for _, s := range all {
		for _, w := range s.wide {
			for i, x := range w.most {
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
	fmt.Fprintf(b, "\nWhat the 90 and the 95 %% quantile of the window maximum cover at all these origins of these series, in per cent, and at those whose two hours before\n"+
		"had less than half the mean of the eight hours before them:\n\n| | 90 %% | 95 %% | after falls: 90 %% | 95 %% |\n|---|---:|---:|---:|---:|\n")
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

// checkCheap holds cheap forecasters against what their own programs were scored with.
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
			t.Errorf("%s: %s comes to %.3f and %.3f, its own program to %.3f and %.3f", s.name(), x.name, got.pinball, got.peak, want.pinball, want.peak)
		}
	}
}

// widePeers scores what others have forecast at more origins than the drawn ones.
func (s *peerSeries) widePeers(t *testing.T, kept map[[2]string][]lossAt) {
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

// On a ramp the last value is off by the lead, always; a mean of what does not change is that; and the last hour's
// percentiles are those of sixty numbers.
func TestCheapPeers(t *testing.T) {
	ramp, flat := make([]float64, 600), make([]float64, 600)
	for i := range ramp {
		ramp[i], flat[i] = float64(i), 7
	}
	const o = 500
	naive := newCheap("naive", ramp).quantiles(o)
	for h := forecaster.WindowFrom; h <= forecaster.WindowTo-2; h++ { // beyond there is nothing to pool with
		if got := naive[h-1][0]; got != ramp[o+h-1] {
			t.Errorf("median of minute %d is %g on a ramp that comes to %g", h, got, ramp[o+h-1])
		}
	}
	for _, name := range []string{"mean15", "mean60", "ses", "hist1h"} {
		for i, got := range newCheap(name, flat).quantiles(o)[forecastMinutes] {
			if math.Abs(got-7) > 1e-9 {
				t.Errorf("%s: quantile %d of the largest is %g where all minutes are 7", name, i, got)
			}
		}
	}
	if got, want := newCheap("hist1h", ramp).quantiles(o)[forecastMinutes], [...]float64{469.5, 487.2, 493.1, 496.05, 498.41}; got != want {
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-9 {
				t.Errorf("last hour's percentile %d is %g, want %g", i, got[i], want[i])
			}
		}
	}
	if newCheap("r_auto.arima", flat) != nil {
		t.Error("a forecaster that has no formula here counts as cheap")
	}
}

// The interval of a ratio is narrow where all blocks have the same, and holds 1 where one block decides.
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

// Losses kept of another forecaster are set beside Forewarm's at the same origins alone, third by third.
func TestBesideKeptLosses(t *testing.T) {
	s := &peerSeries{trace: "trace", seriesKey: seriesKey{features.TotalClass, features.DimDecode}, y: make([]float64, 3000)}
	var losses []lossAt
	for o := 1000; o < 2900; o += everywhereGrid {
		s.wide = append(s.wide, widely{lossAt: lossAt{o, 3, 1}})
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
	r, ok := s.beside("arima", kept[key], func(l lossAt) float64 { return l.peak })
	if want := [...]within{{.5, .5, .5}, {.25, .25, .25}}; !ok || r != want {
		t.Errorf("%v %v, want %v", r, ok, want)
	}
	if _, ok := s.beside("other", nil, func(l lossAt) float64 { return l.peak }); ok {
		t.Error("a forecaster of whom nothing is known is compared")
	}
}
