package backtest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// alarmScores are other scores for an onset alarm: simple rules of the first o minutes of y, then two that know the
// future, as upper bounds. A larger score means that an onset is more likely.
var alarmScores = []struct {
	name string
	of   func(y []float64, o int) float64
}{
	{"largest of the last 16", func(y []float64, o int) float64 { return slices.Max(y[max(0, o-16):o]) }},
	{"mean of 15 minutes", func(y []float64, o int) float64 { return stat.Mean(y[max(0, o-15):o], nil) }},
	{"predict_linear_1h", func(y []float64, o int) float64 {
		var minutes []float64
		from := max(0, o-60)
		for m := from; m < o; m++ {
			minutes = append(minutes, float64(m-o+1))
		}
		at, slope := stat.LinearRegression(minutes, y[from:o], nil, false)
		return at + max(slope*forecaster.WindowFrom, slope*forecaster.WindowTo)
	}},
	{"same window yesterday", func(y []float64, o int) float64 { return slices.Max(ahead(y, max(0, o-1440))) }},
	{"knows the hour's mean", func(y []float64, o int) float64 {
		const middle = (forecaster.WindowFrom + forecaster.WindowTo) / 2
		return stat.Mean(y[max(0, o+middle-30):min(o+middle+30, len(y))], nil)
	}},
	{"knows the window's mean", func(y []float64, o int) float64 { return stat.Mean(ahead(y, o), nil) }},
}

// ahead returns minutes 15 to 30 from origin o.
func ahead(y []float64, o int) []float64 {
	return y[o+forecaster.WindowFrom-1 : o+forecaster.WindowTo]
}

// alarm judges P(the window maximum exceeds capacity) as an onset alarm, and compares it with alarmScores. capacity is
// the 90th percentile of the maxima of sixteen minutes in the first two thirds. Origins that are above it already are
// left out.
type alarm struct {
	capacity float64
	origin   []int
	event    []bool
	scores   [][]float64 // Forewarm's first
}

// onset has the quality of the alarms of a pool.
type onset struct {
	seriesKey
	series, pool    string
	origins, events int
	episodes        int            // groups of events at most episodeApart apart
	quality         []alarmQuality // Forewarm's first; nil when there are too few events
}

// episodeApart is in minutes.
const episodeApart = 60

// alarmQuality is the area under an alarm's ROC curve, and its recall at a 5 % share of false alarms.
type alarmQuality struct{ auc, recall float64 }

func newAlarm(y []float64) *alarm {
	var past []float64
	for i := range y[:2*len(y)/3] {
		past = append(past, slices.Max(y[max(0, i-15):i+1]))
	}
	slices.Sort(past)
	return &alarm{capacity: stat.Quantile(.9, stat.LinInterp, past, nil), scores: make([][]float64, 1+len(alarmScores))}
}

func (a *alarm) add(o int, y []float64, p float64) {
	if o < 2*len(y)/3 || slices.Max(y[max(0, o-16):o]) > a.capacity {
		return
	}
	a.origin = append(a.origin, o)
	a.event = append(a.event, slices.Max(ahead(y, o)) > a.capacity)
	a.scores[0] = append(a.scores[0], p)
	for i, s := range alarmScores {
		a.scores[1+i] = append(a.scores[1+i], s.of(y, o))
	}
}

func (a *alarm) judge(s *peerSeries) onset {
	o := onset{seriesKey: s.seriesKey, series: s.name(), pool: s.pool(), origins: len(a.event)}
	last := math.MinInt / 2
	for i, e := range a.event {
		if !e {
			continue
		}
		o.events++
		if a.origin[i]-last > episodeApart {
			o.episodes++
		}
		last = a.origin[i]
	}
	if o.events < 5 || len(a.event)-o.events < 20 {
		return o
	}
	for _, scores := range a.scores {
		o.quality = append(o.quality, judgeAlarm(a.event, scores))
	}
	return o
}

// pool returns the name of the series as a pool.
func (s *peerSeries) pool() string {
	if s.class == features.TotalClass {
		return s.trace + " " + s.dimension
	}
	return s.trace + " " + s.class + " " + s.dimension
}

func judgeAlarm(event []bool, scores []float64) (w alarmQuality) {
	var yes, no []float64
	for i, e := range event {
		if e {
			yes = append(yes, scores[i])
		} else {
			no = append(no, scores[i])
		}
	}
	slices.Sort(no)
	threshold := stat.Quantile(.95, stat.LinInterp, no, nil)
	for _, p := range yes {
		lo, _ := slices.BinarySearch(no, p)
		hi := lo
		for hi < len(no) && no[hi] == p {
			hi++
		}
		w.auc += float64(lo+hi) / 2 / float64(len(no)*len(yes))
		if p > threshold {
			w.recall += 1 / float64(len(yes))
		}
	}
	return w
}

// alarmPeer is the only other forecaster whose onset alarms are compared. It is incremental. The others would be fitted
// again at thousands of origins.
const alarmPeer = "gostack"

// alarmFigures has the quality of its alarms.
const alarmFigures = "testdata/onsets.csv"

// peerAlarm is the quality of alarmPeer's alarms, with the number of their origins and events.
type peerAlarm struct {
	origins, events int
	alarmQuality
}

// peer scores alarmPeer's quantiles of the window maximum at the origins of a. It runs alarmPeer if there is no file of
// them. ok is false without forecasts.
func (a *alarm) peer(t *testing.T, s *peerSeries) (quality peerAlarm, ok bool) {
	base := filepath.Join(*peerDir, "forewarm", s.name())
	origins, out := base+".onsets", filepath.Join(filepath.Dir(base), "out", s.name()+"."+alarmPeer+".onsets.csv")
	if _, err := os.Stat(out); err != nil && *peerSet != "" {
		var rows strings.Builder
		for _, o := range a.origin {
			fmt.Fprintln(&rows, o-1)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(out), 0o755), s.write(filepath.Dir(base)), os.WriteFile(origins, []byte(rows.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), filepath.Join(*peerDir, alarmPeer, alarmPeer), "--series", base+".csv", "--origins", origins, "--out", out)
		if output, err := c.CombinedOutput(); err != nil {
			t.Logf("%s: %v\n%s", s.name(), err, output)
			return quality, false
		}
	}
	p, err := readExceeded(out, a.capacity)
	if err != nil {
		t.Logf("%s: %v", out, err)
		return quality, false
	}
	var scores []float64
	for i, o := range a.origin {
		x, found := p[o]
		if !found {
			t.Logf("%s: no forecast at origin %d", out, o)
			return quality, false
		}
		scores = append(scores, x)
		if a.event[i] {
			quality.events++
		}
	}
	quality.origins, quality.alarmQuality = len(scores), judgeAlarm(a.event, scores)
	return quality, true
}

// readExceeded reads a peer's file. It returns, by origin, the probability that the window maximum exceeds capacity.
func readExceeded(path string, capacity float64) (map[int]float64, error) {
	file, err := readPeer(path)
	if err != nil {
		return nil, err
	}
	out := map[int]float64{}
	for o, q := range file.at {
		out[o] = exceeded(&q[forecastMinutes], capacity)
	}
	return out, nil
}

// exceeded returns the probability of more than capacity by quantiles at the scored levels. The distribution is linear
// from zero to the first quantile and between quantiles, and exponential above the last.
func exceeded(q *[len(forecaster.ScoredLevels)]float64, capacity float64) float64 {
	const n = len(forecaster.ScoredLevels)
	level := func(i int) float64 { return forecaster.Levels[forecaster.ScoredLevels[i]] }
	if capacity >= q[n-1] {
		slope := (q[n-1] - q[n-2]) / math.Log((1-level(n-2))/(1-level(n-1)))
		if slope <= 0 {
			return 0
		}
		return (1 - level(n-1)) * math.Exp(-(capacity-q[n-1])/slope)
	}
	below, from := 0.0, 0.0
	for i, x := range q {
		if capacity < x {
			return 1 - below - (level(i)-below)*(capacity-from)/(x-from)
		}
		below, from = level(i), x
	}
	return 0
}

// readAlarms reads the quality of alarmPeer's alarms, by series.
func readAlarms(path string) (map[string]peerAlarm, error) {
	out := map[string]peerAlarm{}
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	for _, row := range rows[1:] {
		var p peerAlarm
		if _, err := fmt.Sscan(strings.Join(row[1:], " "), &p.origins, &p.events, &p.auc, &p.recall); err != nil {
			return nil, fmt.Errorf("%s: %v: %w", path, row, err)
		}
		out[row[0]] = p
	}
	return out, nil
}

func writeAlarms(path string, all map[string]peerAlarm) error {
	var b strings.Builder
	b.WriteString("series,origins,events,auc,recall\n")
	for _, series := range slices.Sorted(maps.Keys(all)) {
		p := all[series]
		fmt.Fprintf(&b, "%s,%d,%d,%.4f,%.4f\n", series, p.origins, p.events, p.auc, p.recall)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// onsetAlarms writes the table of onset alarms.
func onsetAlarms(b *strings.Builder, onsets []onset, peer map[string]peerAlarm) {
	b.WriteString("\nOnset alarms of pools: P(the largest of minutes 15 to 30 exceeds the 90th percentile of the past), at every minute " +
		"of the last third that is not above it already. Each cell has the area under the ROC curve, and the recall at 5 % false alarms. " + alarmPeer + " and simple " +
		"rules have the same origins. Two rules know the future: the mean of the hour around the window, and of the window itself. " +
		"A forecast of the level can hardly do better than the first. One that does better than the second knows single minutes. " +
		"Events less than an hour apart are one episode. With few episodes the area is known to ± 0.05 at best. Each model of m365 is a pool. " +
		"The means leave out what was not run everywhere.\n" +
		"\n| pool | events in episodes | " + own + " | " + alarmPeer + " |")
	rule := "\n|---|---:|---:|---:|"
	for _, s := range alarmScores {
		b.WriteString(" " + s.name + " |")
		rule += "---:|"
	}
	b.WriteString(rule + "\n")
	const columns = 2
	mean, n := make([]alarmQuality, columns+len(alarmScores)), make([]float64, columns+len(alarmScores))
	for _, o := range onsets {
		fmt.Fprintf(b, "| %s | %d in %d |", o.pool, o.events, o.episodes)
		if o.quality == nil {
			b.WriteString(" too few |" + strings.Repeat(" |", columns-1+len(alarmScores)) + "\n")
			continue
		}
		for i := range mean {
			var w alarmQuality
			switch p, ok := peer[o.series]; {
			case i == 0:
				w = o.quality[0]
			case i > 1:
				w = o.quality[i-1]
			case ok && p.origins == o.origins && p.events == o.events: // other numbers are of another version of the trace
				w = p.alarmQuality
			default:
				b.WriteString(" – |")
				continue
			}
			fmt.Fprintf(b, " %.3f, %.2f |", w.auc, w.recall)
			mean[i].auc += w.auc
			mean[i].recall += w.recall
			n[i]++
		}
		b.WriteString("\n")
	}
	if n[0] == 0 {
		return
	}
	b.WriteString("| mean | |")
	for i, w := range mean {
		if n[i] < n[0] {
			b.WriteString(" – |")
			continue
		}
		fmt.Fprintf(b, " %.3f, %.2f |", w.auc/n[i], w.recall/n[i])
	}
	b.WriteString("\n")
}

// TestOnsetAlarms: a constant probability finds no onsets. A rule that knows the mean of the window finds all.
func TestOnsetAlarms(t *testing.T) {
	y := make([]float64, 3000)
	for i := range y {
		y[i] = 100 + float64(i%7)
		if i%1000 >= 950 { // rarely loud, so that the 90th percentile is quiet
			y[i] *= 2
		}
	}
	a := newAlarm(y)
	for o := 2000; o+forecaster.WindowTo <= len(y); o++ {
		a.add(o, y, .5)
	}
	got := a.judge(&peerSeries{trace: "trace", seriesKey: seriesKey{features.TotalClass, features.DimDecode}})
	if got.episodes != 1 || got.origins != len(a.event) {
		t.Errorf("%d episodes, %d origins; want 1, %d", got.episodes, got.origins, len(a.event))
	}
	if got.quality == nil {
		t.Fatalf("no quality with %d events", got.events)
	}
	if w := got.quality[0]; math.Abs(w.auc-.5) > 1e-9 || w.recall != 0 {
		t.Errorf("a constant probability has %+v, want an area of 0.5 and no recall", w)
	}
	if w := got.quality[len(alarmScores)]; w.auc < .999 || w.recall < .999 {
		t.Errorf("the window's mean has %+v, want 1 and 1", w)
	}
}

// TestPeerAlarms: probabilities are read from the quantiles of the window maximum, which are sums per minute. The
// quality of alarms is read as it was written.
func TestPeerAlarms(t *testing.T) {
	rows := "origin,h,q50,q80,q90,q95,q99\n"
	for o, median := range []float64{9, 8} {
		rows += fmt.Sprintf("%d,31,%g,%g,%g,%g,%g\n%d,30,1,1,1,1,1\n", o-1, 60*median, 60*(median+1), 60*(median+2), 60*(median+3), 60*(median+4), o-1)
	}
	p, err := readExceeded(write(t, rows), 10)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(p[0]-.2) > 1e-9 || math.Abs(p[1]-.1) > 1e-9 {
		t.Errorf("probabilities %v and %v, want 0.2 and 0.1", p[0], p[1])
	}
	want := map[string]peerAlarm{"trace.ALL.decode": {60, 6, alarmQuality{.75, .5}}}
	path := filepath.Join(t.TempDir(), "alarms.csv")
	if err := writeAlarms(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := readAlarms(path)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
}

// TestExceeded: probabilities between quantiles are by hand. Above the last, the probability falls with capacity.
func TestExceeded(t *testing.T) {
	q := [len(forecaster.ScoredLevels)]float64{10, 20, 30, 40, 50}
	for _, x := range []struct{ capacity, want float64 }{{0, 1}, {5, .75}, {10, .5}, {25, .15}, {40, .05}, {50, .01}} {
		if got := exceeded(&q, x.capacity); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", x.capacity, got, x.want)
		}
	}
	if a, b := exceeded(&q, 60), exceeded(&q, 70); !(a < .01 && b < a && b > 0) {
		t.Errorf("above the last quantile %v, then %v; want less than 0.01, falling", a, b)
	}
}
