package backtest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/forewarm/forewarm/forecaster"
)

// alarmScores are what else an onset alarm could go by, of the minutes y of which o are known: simple rules, then two that
// know the future, by which to judge what is to be had at all. Larger says that an onset is more likely.
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

// ahead are minutes 15 to 30 after the o first.
func ahead(y []float64, o int) []float64 {
	return y[o+forecaster.WindowFrom-1 : o+forecaster.WindowTo]
}

// alarm judges P(the window maximum exceeds capacity) as an onset alarm, beside alarmScores: capacity is the 90th percentile
// of sixteen-minute maxima in the first two thirds, and origins that are above it already do not count.
type alarm struct {
	capacity float64
	event    []bool
	scores   [][]float64 // Forewarm's first
}

// onset is what alarms of a pool were worth.
type onset struct {
	trace, dimension string
	events           int
	worth            []alarmWorth // Forewarm's first; none when there are too few events
}

// alarmWorth is the area under an alarm's ROC curve, and its recall at a 5 % share of false alarms.
type alarmWorth struct{ auc, recall float64 }

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
	a.event = append(a.event, slices.Max(ahead(y, o)) > a.capacity)
	a.scores[0] = append(a.scores[0], p)
	for i, s := range alarmScores {
		a.scores[1+i] = append(a.scores[1+i], s.of(y, o))
	}
}

func (a *alarm) judge(trace, dimension string) onset {
	o := onset{trace: trace, dimension: dimension}
	for _, e := range a.event {
		if e {
			o.events++
		}
	}
	if o.events < 5 || len(a.event)-o.events < 20 {
		return o
	}
	for _, scores := range a.scores {
		o.worth = append(o.worth, judgeAlarm(a.event, scores))
	}
	return o
}

func judgeAlarm(event []bool, scores []float64) (w alarmWorth) {
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

// alarmed writes the table of onset alarms.
func alarmed(b *strings.Builder, onsets []onset) {
	b.WriteString("\nOnset alarms of pools: P(the largest of minutes 15 to 30 exceeds the 90th percentile of the past), at every minute " +
		"of the last third that is not above it already. Area under the ROC curve, and recall at 5 % false alarms; beside it what simple " +
		"rules come to by their size at the same origins, and what two come to that know the future: the mean of the hour around the window, " +
		"and of the window itself. A forecast of the level can hardly do better than the first, and one that does better than the second knows single minutes.\n" +
		"\n| pool | events | " + own + " |")
	rule := "\n|---|---:|---:|"
	for _, s := range alarmScores {
		b.WriteString(" " + s.name + " |")
		rule += "---:|"
	}
	b.WriteString(rule + "\n")
	mean, n := make([]alarmWorth, 1+len(alarmScores)), 0.0
	for _, o := range onsets {
		fmt.Fprintf(b, "| %s %s | %d |", o.trace, o.dimension, o.events)
		if o.worth == nil {
			b.WriteString(" too few |" + strings.Repeat(" |", len(alarmScores)) + "\n")
			continue
		}
		n++
		for i, w := range o.worth {
			fmt.Fprintf(b, " %.3f, %.2f |", w.auc, w.recall)
			mean[i].auc += w.auc
			mean[i].recall += w.recall
		}
		b.WriteString("\n")
	}
	if n == 0 {
		return
	}
	b.WriteString("| mean | |")
	for _, w := range mean {
		fmt.Fprintf(b, " %.3f, %.2f |", w.auc/n, w.recall/n)
	}
	b.WriteString("\n")
}

// TestOnsetAlarms: a constant says nothing of onsets, and who knows the mean of the window finds them all.
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
	got := a.judge("trace", "decode")
	if got.worth == nil {
		t.Fatalf("%d events", got.events)
	}
	if w := got.worth[0]; math.Abs(w.auc-.5) > 1e-9 || w.recall != 0 {
		t.Errorf("a constant probability: %+v", w)
	}
	if w := got.worth[len(alarmScores)]; w.auc < .999 || w.recall < .999 {
		t.Errorf("the window's mean: %+v", w)
	}
}
