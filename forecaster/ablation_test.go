package forecaster

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/network"
)

// TestAblation removes each part of the model in turn, and prints the loss relative to the whole model, on the last
// third of public traces: the geometric mean over traces, with its standard error. Groups of features are set to their
// means. The network is not trained again without them, so these rows are upper bounds of what a group contributes.
// Every fourth series of a trace is scored. Skipped unless FOREWARM_TRACES names the directory of the traces and
// FOREWARM_ABLATION is set. FOREWARM_ACCURACY_NET and FOREWARM_ACCURACY_ONLY are as in TestAccuracy.
func TestAblation(t *testing.T) {
	dir := os.Getenv("FOREWARM_TRACES")
	if dir == "" || os.Getenv("FOREWARM_ABLATION") == "" {
		t.Skip("run make ablation TRACES=directory of public traces")
	}
	useWeights(t)
	var all []traceSerie
	seen := map[string]int{}
	for _, s := range traceSeries(t, dir, os.Getenv("FOREWARM_ACCURACY_ONLY")) {
		if seen[s.trace]++; seen[s.trace]%4 == 1 || s.class == features.TotalClass {
			all = append(all, s)
		}
	}
	variants := []struct {
		name   string
		forget func(*series) // after each minute
	}{
		{"whole", nil},
		{"without the calibration", func(s *series) { s.Model = newSeries(testKey, 0).Model }},
		{"without yesterday", func(s *series) { s.Day = [numKnots]slope{} }},
		{"without the last value", func(s *series) { s.Last = [numKnots]slope{} }},
	}
	for _, g := range network.Groups {
		variants = append(variants, struct {
			name   string
			forget func(*series)
		}{"without " + g.Name, nil})
	}
	whole := network.Fitted
	defer func() { network.Fitted = whole }()
	var base []accuracy
	var b strings.Builder
	fmt.Fprintf(&b, "%-42s %18s %18s\n", "", "minutes", "largest")
	for i, v := range variants {
		network.Fitted = whole
		if g := i - (len(variants) - len(network.Groups)); g >= 0 {
			n := whole().Without(network.Groups[g])
			network.Fitted = func() *network.Net { return n }
		}
		rows := make([]accuracy, len(all))
		inParallel(len(all), func(i int) { rows[i] = all[i].score(2.0/3, 1, 15, v.forget) })
		if base == nil {
			base = rows
		}
		minutes, minutesError := meanLogRatio(rows, base, func(a *accuracy) float64 { return a.pinball })
		largest, largestError := meanLogRatio(rows, base, func(a *accuracy) float64 { return a.peak })
		fmt.Fprintf(&b, "%-42s %+8.1f %% ± %4.1f %+8.1f %% ± %4.1f\n", v.name, 100*minutes, 100*minutesError, 100*largest, 100*largestError)
	}
	t.Log("\n" + b.String())
}

// meanLogRatio returns the mean over traces of the logarithm of the ratio of losses, and its standard error.
func meanLogRatio(rows, base []accuracy, of func(*accuracy) float64) (mean, se float64) {
	sums, n := map[string]float64{}, map[string]float64{}
	var traces []string
	for i := range rows {
		a, b := of(&rows[i]), of(&base[i])
		if rows[i].origins == 0 || !(a > leastRatio && b > leastRatio) || math.IsInf(a/b, 0) {
			continue
		}
		if n[rows[i].trace] == 0 {
			traces = append(traces, rows[i].trace)
		}
		sums[rows[i].trace] += math.Log(a / b)
		n[rows[i].trace]++
	}
	squares := 0.0
	for _, x := range traces {
		y := sums[x] / n[x]
		mean += y
		squares += y * y
	}
	k := float64(len(traces))
	mean /= k
	return mean, math.Sqrt(max(0, squares/k-mean*mean) / (k - 1))
}
