package backtest

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/forewarm/forewarm/forecaster"
)

// quantiles has the quantiles of a forecast at the scored levels, for each minute, then for the window maximum.
type quantiles [forecastMinutes + 1][len(forecaster.ScoredLevels)]float64

// largestOfQuantiles sets the quantiles of the window maximum to the largest of the minutes' quantiles, for forecasters
// that do not forecast it.
func (q *quantiles) largestOfQuantiles() {
	for i := range q[forecastMinutes] {
		q[forecastMinutes][i] = 0
		for h := forecaster.WindowFrom; h <= forecaster.WindowTo; h++ {
			q[forecastMinutes][i] = max(q[forecastMinutes][i], q[h-1][i])
		}
	}
}

// tally adds up the losses of forecasts over the origins of a series.
type tally struct {
	series        *peerSeries
	minutes, peak float64 // pinball loss of minutes 15 to 30 and of the window maximum, over the scored levels
	wrong         float64 // absolute error of the median
	origins       int
}

func newTally(s *peerSeries) *tally { return &tally{series: s} }

func (a *tally) add(o int, q *quantiles) {
	a.origins++
	most := 0.0
	for h := forecaster.WindowFrom; h <= forecaster.WindowTo; h++ {
		y := a.series.y[o+h-1]
		most = max(most, y)
		a.minutes += losses(y, &q[h-1])
		a.wrong += math.Abs(y - q[h-1][0])
	}
	a.peak += losses(most, &q[forecastMinutes])
}

func losses(y float64, q *[len(forecaster.ScoredLevels)]float64) (sum float64) {
	for i, level := range forecaster.ScoredLevels {
		sum += forecaster.Pinball(forecaster.Levels[level], y, q[i])
	}
	return sum
}

// reference returns the forecast of the reference: the last value with the empirical quantiles of its errors of the
// last two days, at leads h±2. For the window maximum, errors are the maximum less the last value.
func (s *peerSeries) reference(o int) (q quantiles) {
	const days = 2880
	i := o - 1
	from := max(0, i-days)
	at := func(x []float64) (out [len(forecaster.ScoredLevels)]float64) {
		slices.Sort(x)
		for k, level := range forecaster.ScoredLevels {
			out[k] = s.y[i]
			if len(x) >= 20 {
				out[k] = max(0, s.y[i]+stat.Quantile(forecaster.Levels[level], stat.LinInterp, x, nil))
			}
		}
		return out
	}
	for h := forecaster.WindowFrom; h <= forecaster.WindowTo; h++ {
		var x []float64
		for w := from; w <= i-forecaster.WindowTo-2; w++ {
			for g := h - 2; g <= h+2; g++ {
				x = append(x, s.y[w+g]-s.y[w])
			}
		}
		q[h-1] = at(x)
	}
	var x []float64
	for w := from; w <= i-forecaster.WindowTo; w++ {
		x = append(x, slices.Max(s.y[w+forecaster.WindowFrom:w+forecaster.WindowTo+1])-s.y[w])
	}
	q[forecastMinutes] = at(x)
	return q
}

// base returns the tally of the reference. It is computed once.
func (s *peerSeries) base() *tally {
	if s.refer == nil {
		s.refer = newTally(s)
		for _, o := range s.origins {
			q := s.reference(o)
			s.refer.add(o, &q)
		}
	}
	return s.refer
}

// figure is one forecaster's scores on one series, relative to the reference.
type figure struct {
	series, peer        string
	failed              int  // origins without a forecast, where the reference takes its place
	point               bool // without quantiles
	pinball, peak, wape float64
	mean                float64 // of the series at the origins: shows whether the series is still the same
}

// figure returns the scores of a tally.
func (a *tally) figure(peer string) figure {
	b, mean := a.series.base(), 0.0
	for _, o := range a.series.origins {
		for h := forecaster.WindowFrom; h <= forecaster.WindowTo; h++ {
			mean += a.series.y[o+h-1]
		}
	}
	mean /= float64(len(a.series.origins) * (forecaster.WindowTo - forecaster.WindowFrom + 1))
	return figure{series: a.series.name(), peer: peer, pinball: over(a.minutes, b.minutes), peak: over(a.peak, b.peak), wape: over(a.wrong, b.wrong), mean: mean}
}

// over returns a ratio of losses. It is 1 if both are zero.
func over(x, reference float64) float64 {
	if x == reference {
		return 1
	}
	return x / reference
}

// peerFile has the forecasts of a peer by origin, the minute after the last known row.
type peerFile struct {
	at      map[int]*quantiles
	minutes map[int]int // number of forecast minutes by origin
	direct  bool        // forecasts the window maximum
	point   bool        // has no quantiles
}

// complete reports whether all minutes from an origin are forecast.
func (f *peerFile) complete(o int) bool { return f.minutes[o] >= forecastMinutes }

// readRows reads all rows of a CSV file.
func readRows(path string) ([][]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return csv.NewReader(file).ReadAll()
}

// readPeer reads a peer's file: origin (the last known row), h, q50, q80, q90, q95, q99 of sums per minute. Minute 31
// is the window maximum. Without it, the largest of the minutes' quantiles takes its place.
func readPeer(path string) (*peerFile, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	f := &peerFile{at: map[int]*quantiles{}, minutes: map[int]int{}}
	for _, row := range rows[min(1, len(rows)):] {
		o, err := strconv.Atoi(row[0])
		if err != nil {
			return nil, err
		}
		h, err := strconv.Atoi(row[1])
		if err != nil || h < 1 || h > forecastMinutes+1 {
			return nil, fmt.Errorf("minute %s", row[1])
		}
		if o++; f.at[o] == nil {
			f.at[o] = &quantiles{}
		}
		f.direct = f.direct || h > forecastMinutes
		for i := range forecaster.ScoredLevels {
			x := f.at[o][h-1][0] * 60
			if cell := row[2+i]; cell != "" {
				if x, err = strconv.ParseFloat(cell, 64); err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
					return nil, fmt.Errorf("%q at origin %d", cell, o)
				}
			} else {
				f.point = true
			}
			f.at[o][h-1][i] = x / 60
		}
		f.minutes[o]++
	}
	for _, q := range f.at {
		if !f.direct {
			q.largestOfQuantiles()
		}
	}
	return f, nil
}

// scoreFile scores a peer's file at the drawn origins.
func (s *peerSeries) scoreFile(path string) (figure, error) {
	file, err := readPeer(path)
	if err != nil {
		return figure{}, err
	}
	a, failed := newTally(s), 0
	for _, o := range s.origins {
		q := file.at[o]
		if !file.complete(o) {
			x := s.reference(o)
			q = &x
			failed++
		}
		a.add(o, q)
	}
	if failed > len(s.origins)/2 {
		return figure{}, fmt.Errorf("%d of %d origins have no forecast", failed, len(s.origins))
	}
	f := a.figure(strings.TrimSuffix(filepath.Base(path), ".csv"))
	f.failed, f.point = failed, file.point
	return f, nil
}

// figures has the figures by series and peer.
type figures map[[2]string]figure

const figuresHeader = "series,peer,failed,point,pinball,peak,wape,mean"

func (fs figures) add(more ...figure) {
	for _, f := range more {
		fs[[2]string{f.series, f.peer}] = f
	}
}

func readFigures(path string) (figures, error) {
	fs := figures{}
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	for _, row := range rows[1:] {
		f := figure{series: row[0], peer: row[1]}
		if _, err := fmt.Sscan(strings.Join(row[2:], " "), &f.failed, &f.point, &f.pinball, &f.peak, &f.wape, &f.mean); err != nil {
			return nil, fmt.Errorf("%s: %v: %w", path, row, err)
		}
		fs.add(f)
	}
	return fs, nil
}

func (fs figures) write(path string) error {
	all := make([]figure, 0, len(fs))
	for _, f := range fs {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b figure) int { return cmp.Or(cmp.Compare(a.series, b.series), cmp.Compare(a.peer, b.peer)) })
	var b strings.Builder
	b.WriteString(figuresHeader + "\n")
	for _, f := range all {
		fmt.Fprintf(&b, "%s,%s,%d,%v,%.4g,%.4g,%.4g,%.6g\n", f.series, f.peer, f.failed, f.point, f.pinball, f.peak, f.wape, f.mean)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
