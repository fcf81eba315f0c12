package backtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
)

// peerTrace is a public trace whose series are compared, as rates per second by the minute.
type peerTrace struct {
	name, file string
	start      time.Time // of the trace, for its weekday
	dimensions []string
	classes    bool // compare the classes too, not only the pool
	models     bool // each class is a model with its own pool
}

var peerTraces = []peerTrace{
	{"sgA", "servegen_sgA_14d.csv.gz", DefaultStart, []string{features.DimPrefill, features.DimDecode}, true, false},
	{"azure2024", "azure2024_conv_week_1in40_recon.csv.gz", time.Date(2024, 5, 12, 0, 0, 0, 0, time.UTC), []string{features.DimPrefill, features.DimDecode}, false, false},
	{"m365", "sageserve_m365_1min.csv.gz", DefaultStart, []string{features.DimPrefill}, true, true},
	{"agentic", "agentic_claude_7d.csv.gz", DefaultStart, []string{features.DimPrefill, features.DimDecode}, true, false},
}

// peerOrigins is the number of compared origins of a trace. Other forecasters take seconds for each.
const peerOrigins = 50

// peerSeries is one series of a trace.
type peerSeries struct {
	trace string
	seriesKey
	y       []float64 // by the minute since the trace's start
	origins []int     // a forecast from origin o knows the minutes before o

	own, refer *tally
	everywhere []outcome // at every fifth minute of the last two thirds
}

// name returns the name of the series in files.
func (s *peerSeries) name() string {
	class := s.class
	if class == features.TotalClass {
		class = "ALL"
	}
	return s.trace + "." + strings.ReplaceAll(class, "/", "_") + "." + s.dimension
}

// readSeries sums a trace into minutes.
func readSeries(t *testing.T, tr peerTrace) []*peerSeries {
	t.Helper()
	x, err := Open(filepath.Join(*traceDir, tr.file), Options{Start: tr.start})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	all := map[seriesKey]*peerSeries{}
	last := 0
	var item Item
	for {
		if err := x.Next(&item); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		class, prefill, decode := demanded(&item)
		m := int(item.At().Sub(tr.start) / time.Minute)
		last = max(last, m)
		keys := []string{class, features.TotalClass}
		if !tr.classes {
			keys = keys[1:]
		}
		for _, c := range keys {
			for _, d := range tr.dimensions {
				k := seriesKey{c, d}
				s := all[k]
				if s == nil {
					s = &peerSeries{trace: tr.name, seriesKey: k}
					all[k] = s
				}
				for len(s.y) <= m {
					s.y = append(s.y, 0)
				}
				if d == features.DimPrefill {
					s.y[m] += prefill / 60
				} else {
					s.y[m] += decode / 60
				}
			}
		}
	}
	var out []*peerSeries
	origins := drawOrigins(last)
	for _, s := range all { // without the last minute, which may not be complete
		for len(s.y) < last {
			s.y = append(s.y, 0)
		}
		s.y, s.origins = s.y[:last], origins
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *peerSeries) int { return strings.Compare(a.name(), b.name()) })
	return out
}

// demanded returns the demand of an item. Unknown counts are zero.
func demanded(item *Item) (class string, prefill, decode float64) {
	known := func(x float64) float64 {
		if !(x > 0) {
			return 0
		}
		return x
	}
	if s := item.Sum; s != nil {
		return s.Class, known(s.PromptTokens) - known(s.CachedTokens), known(s.OutputTokens)
	}
	r := item.Request
	return r.Class, known(float64(r.PromptTokens)) - known(float64(r.CachedTokens)), known(float64(r.OutputTokens))
}

// originGrid is the time between the pipeline's forecasts, in minutes. Compared origins are drawn from these.
const originGrid = 5

// drawOrigins draws the compared origins from the last third of n minutes.
func drawOrigins(n int) []int {
	var grid []int
	for o := (2*n/3/originGrid + 1) * originGrid; o+30 <= n; o += originGrid {
		grid = append(grid, o)
	}
	rand.New(rand.NewPCG(1, uint64(n))).Shuffle(len(grid), func(i, j int) { grid[i], grid[j] = grid[j], grid[i] })
	grid = grid[:min(peerOrigins, len(grid))]
	slices.Sort(grid)
	return grid
}

// write writes the series as sums per minute, and the last known row of each origin. It does not overwrite files.
func (s *peerSeries) write(dir string) error {
	write := func(name string, lines func(w *bufio.Writer)) error {
		path := filepath.Join(dir, s.name()+name)
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		w := bufio.NewWriter(f)
		lines(w)
		return errors.Join(w.Flush(), f.Close())
	}
	return errors.Join(
		write(".csv", func(w *bufio.Writer) {
			fmt.Fprintln(w, "t,y")
			for i, y := range s.y {
				fmt.Fprintf(w, "%d,%.9g\n", i, y*60)
			}
		}),
		write(".origins", func(w *bufio.Writer) {
			for _, o := range s.origins {
				fmt.Fprintln(w, o-1)
			}
		}))
}
