package forecaster

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/gob"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/network"
)

// TestAccuracy runs the model over public traces, series by series, and prints its loss relative to that of the last
// value with the empirical quantiles of its own past errors (= 1.00). Constants are tuned with it, on origins in the
// second third of each trace and never on the last. Skipped unless FOREWARM_ACCURACY says which part of the traces to
// score: "tune" (origins from 1/3 to 2/3) or "check" (the last third). FOREWARM_TRACES is the traces' directory,
// FOREWARM_ACCURACY_ONLY a comma-separated list of parts of trace or class names, FOREWARM_ACCURACY_STEP the minutes
// between origins, and FOREWARM_ACCURACY_NET a file of weights to use in place of those in the program.
func TestAccuracy(t *testing.T) {
	part, dir := os.Getenv("FOREWARM_ACCURACY"), os.Getenv("FOREWARM_TRACES")
	if part == "" || dir == "" {
		t.Skip("set FOREWARM_ACCURACY to tune or check, and FOREWARM_TRACES, to score the models on traces")
	}
	from, to := 1.0/3, 2.0/3
	if part == "check" {
		from, to = 2.0/3, 1
	}
	step := 7
	if s := os.Getenv("FOREWARM_ACCURACY_STEP"); s != "" {
		step, _ = strconv.Atoi(s)
	}
	useWeights(t)
	all := traceSeries(t, dir, os.Getenv("FOREWARM_ACCURACY_ONLY"))
	results := make([]accuracy, len(all))
	inParallel(len(all), func(i int) { results[i] = all[i].score(from, to, step, nil) })
	printAccuracy(t, results, part)
}

// useWeights replaces the network by the one in the file that FOREWARM_ACCURACY_NET names, until the test ends.
func useWeights(t *testing.T) {
	path := os.Getenv("FOREWARM_ACCURACY_NET")
	if path == "" {
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	net, err := network.Decode(b)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	was := network.Fitted
	network.Fitted = func() *network.Net { return net }
	t.Cleanup(func() { network.Fitted = was })
}

// inParallel calls f for 0 to n−1, with one goroutine per processor.
func inParallel(n int, f func(i int)) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		wait.Add(1)
		slots <- struct{}{}
		go func() {
			defer wait.Done()
			f(i)
			<-slots
		}()
	}
	wait.Wait()
}

// traceOf describes a trace file.
type traceOf struct {
	file    string
	bin     int // seconds a row; 0 if a row is one request
	every   int // one in so many classes is scored
	dims    []string
	weekday int // days after Monday on which it starts
}

var accuracyTraces = []traceOf{
	{"agentic_claude_7d.csv.gz", 0, 1, []string{"prefill", "decode"}, 0},
	{"azure2024_conv_week_1in40_recon.csv.gz", 0, 1, []string{"prefill", "decode"}, 6},
	{"azure2024_conv_week_10min_digitised.csv.gz", 600, 1, []string{"prefill", "decode"}, 6},
	{"sageserve_m365_1min.csv.gz", 60, 1, []string{"prefill"}, 0},
	{"servegen_sgA_14d.csv.gz", 0, 1, []string{"prefill", "decode"}, 0},
	{"servegen_deepseek_r1_1d.csv.gz", 0, 1, []string{"prefill", "decode"}, 0},
	{"servegen_mm_image_1d.csv.gz", 0, 1, []string{"prefill", "decode"}, 0},
	{"servegen_clients_10min.csv.gz", 600, 8, []string{"prefill", "decode"}, 0},
	{"azure2023_conv_1h.csv.gz", 0, 1, []string{"prefill", "decode"}, 3},
	{"mooncake_conversation_1h.csv.gz", 0, 1, []string{"prefill", "decode"}, 2},
	{"worldcup98_1min.csv.gz", 60, 1, []string{"prefill"}, 3},
	{"nasa_jul95_1min.csv.gz", 60, 1, []string{"prefill"}, 5},
	{"nasa_aug95_1min.csv.gz", 60, 1, []string{"prefill"}, 1},
}

type traceSerie struct {
	trace, class, dim string
	start             int64 // minute since 1970
	first             int   // minute of the first record
	y                 []float64
}

// accuracy holds the scores of a series.
type accuracy struct {
	trace, class, dim                  string
	origins                            int
	pinball, peak                      float64 // relative to the reference
	cov90, cov95, peakCov90, peakCov95 float64
	// tied are the same four coverages with sharedOut. Plain coverage cannot be less than the share of outcomes that
	// are zero, whatever the forecast. This one equals the level if the forecast is right.
	tied        [4]float64
	auc, recall float64 // of onset alarms, NaN without events
}

// traceSeries reads the traces into series of one minute each, as rates per second.
func traceSeries(t *testing.T, dir, only string) (out []traceSerie) {
	parts := make([][]traceSerie, len(accuracyTraces))
	inParallel(len(parts), func(i int) { parts[i] = readTrace(t, filepath.Join(dir, accuracyTraces[i].file), accuracyTraces[i]) })
	for _, p := range parts {
		for _, s := range p {
			name := s.trace + "/" + s.class + "/" + s.dim
			if only == "" || slices.ContainsFunc(strings.Split(only, ","), func(x string) bool { return strings.Contains(name, x) }) {
				out = append(out, s)
			}
		}
	}
	return out
}

// openTrace opens a gzipped CSV file until the test ends. If it can't, it fails the test and returns nil.
func openTrace(t *testing.T, path string) *csv.Reader {
	file, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = file.Close() })
	unzip, err := gzip.NewReader(file)
	if err != nil {
		t.Error(err)
		return nil
	}
	return csv.NewReader(unzip)
}

func readTrace(t *testing.T, path string, tr traceOf) []traceSerie {
	rows := openTrace(t, path)
	if rows == nil {
		return nil
	}
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		t.Error(err)
		return nil
	}
	column := map[string]int{}
	for i, name := range header {
		column[strings.Clone(name)] = i
	}
	type key struct{ class, dim string }
	sums := map[key]map[int]float64{}
	last := 0
	for {
		row, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		number := func(name string) float64 {
			i, ok := column[name]
			if !ok || row[i] == "" {
				return 0
			}
			x, _ := strconv.ParseFloat(row[i], 64)
			return x
		}
		m := int(number("t_s")) / 60
		last = max(last, m)
		for _, class := range []string{row[column["class"]], features.TotalClass} {
			for _, dim := range tr.dims {
				k := key{class, dim}
				s := sums[k]
				if s == nil {
					s = map[int]float64{}
					sums[key{strings.Clone(class), dim}] = s
				}
				if dim == "prefill" {
					s[m] += number("prompt_tokens") - number("cached_tokens")
				} else {
					s[m] += number("output_tokens")
				}
			}
		}
	}
	n := last
	if tr.bin > 60 {
		n += tr.bin / 60
	}
	keys := make([]key, 0, len(sums))
	for k := range sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.dim, b.dim)) })
	var out []traceSerie
	seen := map[string]int{}
	for _, k := range keys {
		if _, ok := seen[k.class]; !ok {
			seen[k.class] = len(seen)
		}
		if k.class != features.TotalClass && seen[k.class]%tr.every != 0 {
			continue
		}
		s := traceSerie{trace: strings.TrimSuffix(tr.file, ".csv.gz"), class: k.class, dim: k.dim, start: 28_401_120 + int64(tr.weekday)*1440, first: n, y: make([]float64, n)}
		sum := 0.0
		for m, v := range sums[k] {
			if m >= n {
				continue
			}
			s.first = min(s.first, m)
			sum += v
			if w := tr.bin / 60; w > 1 {
				for i := m; i < min(n, m+w); i++ {
					s.y[i] = v / 60 / float64(w)
				}
			} else {
				s.y[m] = v / 60
			}
		}
		if sum > 0 {
			out = append(out, s)
		}
	}
	return out
}

var accuracyLevels = []float64{.5, .8, .9, .95, .99}

// reference is the loss of the last-value forecast over the origins of a series: summed over minutes 15 to 30, and of
// the window maximum.
type reference struct{ Minutes, Peak float64 }

// sharedOut is the part of an outcome y that counts as covered by the quantile at a level: 1 or 0. If both outcome and
// quantile are zero, it is the level divided by the probability that the forecast gives to zero (randomised PIT).
func sharedOut(y float64, q *Quantiles, level int) float64 {
	if y > 0 || q[level] > 0 {
		return indicator(y <= q[level])
	}
	top := level // the highest level whose quantile is zero: the probability of zero is between it and the next
	for top+1 < NumLevels && q[top+1] == 0 {
		top++
	}
	next := 1.0
	if top+1 < NumLevels {
		next = Levels[top+1]
	}
	return Levels[level] / ((Levels[top] + next) / 2)
}

// reference computes the loss of the last-value forecast, and caches it in a file. Its quantiles are those of its
// errors in the last two days, at leads within two minutes, computed every hour.
func (s *traceSerie) reference(from, to float64, step int) (r reference) {
	cached := filepath.Join(os.TempDir(), "forewarm-accuracy", strings.ReplaceAll(fmt.Sprintf("%s_%s_%s_%.3f_%.3f_%d_%d_sums.gob", s.trace, s.class, s.dim, from, to, step, len(s.y)), "/", "-"))
	if f, err := os.Open(cached); err == nil {
		defer f.Close()
		if gob.NewDecoder(f).Decode(&r) == nil {
			return r
		}
	}
	var at [31][]float64
	var peak []float64
	computed := -1000
	for o := range s.origins(from, to, step) {
		i := o - 1
		lo := max(0, i-2880)
		if o-computed >= 60 {
			computed = o
			errors := make([][]float64, 33)
			for h := 13; h <= 32; h++ {
				for w := lo; w <= i-30; w++ {
					if w+h <= i {
						errors[h] = append(errors[h], s.y[w+h]-s.y[w])
					}
				}
			}
			var em []float64
			for w := lo; w <= i-30; w++ {
				em = append(em, slices.Max(s.y[w+15:w+31])-s.y[w])
			}
			for h := 15; h <= 30; h++ {
				at[h] = quantilesOf(slices.Concat(errors[h-2 : h+3]...))
			}
			peak = quantilesOf(em)
		}
		most, minutesLoss, peakLoss := 0.0, 0.0, 0.0
		for h := 15; h <= 30; h++ {
			y := s.y[i+h]
			most = max(most, y)
			for k, tau := range accuracyLevels {
				minutesLoss += Pinball(tau, y, max(0, s.y[i]+at[h][k]))
			}
		}
		for k, tau := range accuracyLevels {
			peakLoss += Pinball(tau, most, max(0, s.y[i]+peak[k]))
		}
		r.Minutes, r.Peak = r.Minutes+minutesLoss, r.Peak+peakLoss
	}
	_ = os.MkdirAll(filepath.Dir(cached), 0o755)
	if f, err := os.Create(cached); err == nil {
		_ = gob.NewEncoder(f).Encode(r)
		_ = f.Close()
	}
	return r
}

func quantilesOf(x []float64) []float64 {
	out := make([]float64, len(accuracyLevels))
	if len(x) < 20 {
		return out
	}
	slices.Sort(x)
	for k, tau := range accuracyLevels {
		out[k] = stat.Quantile(tau, stat.LinInterp, x, nil)
	}
	return out
}

// origins are the minutes from which forecasts are scored. The minutes before an origin are known.
func (s *traceSerie) origins(from, to float64, step int) func(func(int) bool) {
	n := float64(len(s.y))
	return func(yield func(int) bool) {
		for o := max(int(math.Ceil(from*n)), 121, s.first+minKnown); float64(o) < to*n && o+30 <= len(s.y); o++ {
			if o%step == 0 && !yield(o) {
				return
			}
		}
	}
}

// score forecasts the series minute by minute and scores the forecasts. It calls forget, unless nil, after each minute.
func (s *traceSerie) score(from, to float64, step int, forget func(*series)) accuracy {
	a := accuracy{trace: s.trace, class: s.class, dim: s.dim, auc: math.NaN(), recall: math.NaN()}
	scored := map[int]bool{}
	end := 0
	for o := range s.origins(from, to, step) {
		scored[o], end = true, o
	}
	x := newSeries(features.Key{Pool: "pool", Class: s.class}, 0)
	var own reference
	var minutes float64
	alarm := s.alarms(from)
	for m := s.first; m < end; m++ {
		if x.push(s.start+int64(m), exact(s.y[m])); forget != nil {
			forget(x)
		}
		o := m + 1
		if !scored[o] {
			continue
		}
		var f Forecast
		x.forecast(&f)
		if f.Known == 0 {
			continue
		}
		a.origins++
		most, minutesLoss, peakLoss := 0.0, 0.0, 0.0
		for h := 15; h <= 30; h++ {
			y, q := s.y[m+h], &f.Minute[h-1]
			most = max(most, y)
			for _, i := range ScoredLevels {
				minutesLoss += Pinball(Levels[i], y, q[i])
			}
			a.tied[0] += sharedOut(y, q, L90)
			a.tied[1] += sharedOut(y, q, L95)
			a.cov90 += indicator(y <= q[L90])
			a.cov95 += indicator(y <= q[L95])
			minutes++
		}
		for _, i := range ScoredLevels {
			peakLoss += Pinball(Levels[i], most, f.WindowMax[i])
		}
		own.Minutes, own.Peak = own.Minutes+minutesLoss, own.Peak+peakLoss
		a.tied[2] += sharedOut(most, &f.WindowMax, L90)
		a.tied[3] += sharedOut(most, &f.WindowMax, L95)
		a.peakCov90 += indicator(most <= f.WindowMax[L90])
		a.peakCov95 += indicator(most <= f.WindowMax[L95])
		alarm.add(m, most, 1-f.WindowMax.CDF(alarm.capacity))
	}
	if a.origins == 0 {
		return a
	}
	ref := s.reference(from, to, step)
	a.pinball, a.peak = relative(own.Minutes, ref.Minutes), relative(own.Peak, ref.Peak)
	a.cov90, a.cov95 = a.cov90/minutes, a.cov95/minutes
	a.peakCov90, a.peakCov95 = a.peakCov90/float64(a.origins), a.peakCov95/float64(a.origins)
	for i, n := range [4]float64{minutes, minutes, float64(a.origins), float64(a.origins)} {
		a.tied[i] /= n
	}
	a.auc, a.recall = alarm.scores()
	return a
}

func relative(x, ref float64) float64 {
	if ref > 0 {
		return x / ref
	}
	if x == 0 {
		return 1
	}
	return math.Inf(1)
}

// alarms scores alarms of an onset. An event is a window maximum above the 90th percentile of past quarter-hour maxima,
// at an origin that is not yet above it.
type alarms struct {
	capacity float64
	recent   []float64 // by minute, the largest of the last 16
	event    []bool
	score    []float64
}

func (s *traceSerie) alarms(from float64) *alarms {
	a := &alarms{recent: make([]float64, len(s.y))}
	for i := range s.y {
		a.recent[i] = slices.Max(s.y[max(0, i-15) : i+1])
	}
	past := slices.Clone(a.recent[:max(1, int(from*float64(len(s.y))))])
	slices.Sort(past)
	a.capacity = stat.Quantile(.9, stat.LinInterp, past, nil)
	return a
}

func (a *alarms) add(m int, most, p float64) {
	if a.recent[m] <= a.capacity {
		a.event = append(a.event, most > a.capacity)
		a.score = append(a.score, p)
	}
}

// scores returns the area under the ROC curve, and the recall when 5 % of the non-events raise an alarm. Both are NaN
// with less than five events or 20 non-events.
func (a *alarms) scores() (auc, recall float64) {
	var yes, no []float64
	for i, e := range a.event {
		if e {
			yes = append(yes, a.score[i])
		} else {
			no = append(no, a.score[i])
		}
	}
	if len(yes) < 5 || len(no) < 20 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(no)
	for _, p := range yes {
		lo, _ := slices.BinarySearch(no, p)
		hi := lo
		for hi < len(no) && no[hi] == p {
			hi++
		}
		auc += float64(lo+hi) / 2
		recall += indicator(p > stat.Quantile(.95, stat.LinInterp, no, nil))
	}
	return auc / float64(len(yes)*len(no)), recall / float64(len(yes))
}

func printAccuracy(t *testing.T, results []accuracy, part string) {
	verbose := os.Getenv("FOREWARM_ACCURACY_VERBOSE") != ""
	var all []accuracy
	var b strings.Builder
	line := func(name string, rs []accuracy) {
		var pin, peak, n, worst, worstPeak, auc, recall, events float64
		var c, tied [4]float64
		var over [2]int // series worse than 1.02
		for _, r := range rs {
			if r.origins == 0 || math.IsInf(r.pinball, 0) || math.IsInf(r.peak, 0) { // the reference lost nothing
				continue
			}
			n++
			pin += math.Log(max(r.pinball, leastRatio))
			peak += math.Log(max(r.peak, leastRatio))
			worst, worstPeak = max(worst, r.pinball), max(worstPeak, r.peak)
			for i, v := range []float64{r.cov90, r.cov95, r.peakCov90, r.peakCov95} {
				c[i] += v
				tied[i] += r.tied[i]
			}
			for i, x := range [2]float64{r.pinball, r.peak} {
				if x > 1.02 {
					over[i]++
				}
			}
			if !math.IsNaN(r.auc) && r.class == features.TotalClass {
				auc, recall, events = auc+r.auc, recall+r.recall, events+1
			}
		}
		if n == 0 {
			return
		}
		fmt.Fprintf(&b, "%-44s %4.0f %7.4f %7.4f  worst %6.2f %6.2f  cov %.3f %.3f  peak %.3f %.3f  pools' AUC %.3f recall %.2f\n", name, n, math.Exp(pin/n), math.Exp(peak/n), worst, worstPeak,
			c[0]/n, c[1]/n, c[2]/n, c[3]/n, auc/events, recall/events)
		fmt.Fprintf(&b, "%44s      zeros shared out: cov %.3f %.3f  peak %.3f %.3f  above 1.02: %d and %d\n", "", tied[0]/n, tied[1]/n, tied[2]/n, tied[3]/n,
			over[0], over[1])
	}
	fmt.Fprintf(&b, "%s\n%-44s    n pinball    peak\n", part, "trace")
	for len(results) > 0 {
		n := 1
		for n < len(results) && results[n].trace == results[0].trace {
			n++
		}
		if verbose {
			for _, r := range results[:n] {
				fmt.Fprintf(&b, "  %-42s %4d %7.4f %7.4f  cov %.3f %.3f  peak %.3f %.3f  AUC %.3f recall %.2f\n", r.class+"/"+r.dim, r.origins, r.pinball, r.peak, r.cov90, r.cov95, r.peakCov90, r.peakCov95, r.auc, r.recall)
			}
		}
		line(results[0].trace, results[:n])
		all = append(all, results[:n]...)
		results = results[n:]
	}
	line("ALL", all)
	line("ALL with a day or more", slices.DeleteFunc(slices.Clone(all), func(a accuracy) bool { return strings.HasSuffix(a.trace, "_1h") }))
	t.Log("\n" + b.String())
}

// leastRatio replaces smaller ratios in geometric means. Otherwise series that became silent would dominate them.
const leastRatio = 0.1
