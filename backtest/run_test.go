package backtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/google/go-cmp/cmp"
)

// writeTrace writes sparse synthetic traffic of so much time, as a native CSV. The file is compressed, and its name
// does not say so: readers recognise gzip by its content.
func writeTrace(t *testing.T, until time.Duration) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprintln(z, "t_s,class,prompt_tokens,cached_tokens,output_tokens,session")
	for _, a := range requestsOf(WorkloadConfig{Rate: .2, Classes: DefaultClasses()[2:4]}, 5, until) {
		fmt.Fprintf(z, "%.3f,%s,%d,%d,%d,%x\n", a.ArrivedAt.Sub(DefaultStart).Seconds(), a.Class, a.PromptTokens, a.CachedTokens, a.OutputTokens, a.Session)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, b.String())
}

func mustRun(t *testing.T, cfg RunConfig) Summary {
	t.Helper()
	s, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func testPool(t *testing.T) *capacity.Pool {
	t.Helper()
	pool, err := capacity.New(capacity.Config{
		Name: "trace", PrefillTokensPerS: 150, DecodeTokensPerS: 15, KVCapacityTokens: 5_000, Replicas: capacity.Replicas{Min: 1, Max: 20, Initial: 2},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &pool
}

func TestRunIsDeterministicAndComplete(t *testing.T) {
	dir := t.TempDir()
	policies := []string{"forewarm", "static_peak", "reactive_keda", "holt_winters", "oracle"}
	run := func(name string) (Summary, string) {
		cfg := RunConfig{
			Trace: writeTrace(t, 4*time.Hour), Forecasts: filepath.Join(dir, name+".csv"), Decisions: filepath.Join(dir, name+"-d.csv"),
			Summary: filepath.Join(dir, name+".json"), Policies: policies, Sweep: true, Seed: 3, PeakReplicas: 6,
		}
		return mustRun(t, cfg), read(t, cfg.Forecasts) + read(t, cfg.Decisions)
	}
	a, files := run("a")
	b, again := run("b")
	a.Trace, b.Trace = TraceSummary{}, TraceSummary{} // the paths differ
	if diff := cmp.Diff(a, b, cmp.Comparer(func(x, y Number) bool { return x == y || math.IsNaN(float64(x)) && math.IsNaN(float64(y)) })); diff != "" || files != again {
		t.Errorf("two runs differ: %s", diff)
	}
	if a.Minutes < 230 || a.Minutes > 240 || a.Origins != a.Minutes/15 {
		t.Errorf("%d minutes, %d origins, want 230 to 240, and an origin each quarter of an hour", a.Minutes, a.Origins)
	}
	settings := map[string]int{}
	for _, r := range a.Policies {
		settings[r.Policy]++
		if !(r.GPUHours > 0) || !(r.SLOAttainment > 0 && r.SLOAttainment <= 1) || !(r.SaturatedShare >= 0) {
			t.Errorf("%+v", r)
		}
		if r.Policy == "static_peak" && r.Knob == "share=1" && r.SaturatedShare != 0 {
			t.Errorf("the pool has the replicas that the peak needs, and is saturated: %+v", r)
		}
	}
	chosen, err := PoliciesNamed(policies)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range chosen {
		if want := len(p.settings(true)); settings[p.Name] != want {
			t.Errorf("%d results of %s, want %d", settings[p.Name], p.Name, want)
		}
	}
	raw := read(t, filepath.Join(dir, "a.json"))
	var decoded struct {
		Scores []struct {
			Class, Dimension, Horizon string
			WAPE                      *float64
		}
		Policies []struct {
			SaturatedShare *float64 `json:"saturated_share"`
		}
	}
	if err := json.Unmarshal([]byte(raw), &decoded); err != nil {
		t.Fatal(err)
	}
	if len(decoded.Scores) == 0 || decoded.Scores[0].Class != features.TotalClass || decoded.Scores[0].WAPE == nil || len(decoded.Policies) != len(a.Policies) {
		t.Errorf("summary %s", raw[:min(len(raw), 400)])
	}
	checkForecasts(t, filepath.Join(dir, "a.csv"))
}

// checkForecasts checks a table of forecasts: 31 rows for each series and origin, and quantiles that do not cross.
func checkForecasts(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], ","); got != forecastsHeader {
		t.Errorf("header %s", got)
	}
	count := map[string]int{}
	for _, row := range rows[1:] {
		count[strings.Join(row[:3], " ")]++
		last := 0.0
		for _, cell := range row[4:] {
			q, err := strconv.ParseFloat(cell, 64)
			if err != nil || q < last {
				t.Fatalf("row %v", row)
			}
			last = q
		}
	}
	dimensions := map[string]bool{}
	for key, n := range count {
		if n != 31 {
			t.Errorf("%s: %d rows, want 31", key, n)
		}
		if f := strings.Fields(key); f[1] == features.TotalClass {
			dimensions[f[2]] = true
		}
	}
	want := map[string]bool{features.DimRequests: true, features.DimPrefill: true, features.DimDecode: true, features.DimKV: true}
	if diff := cmp.Diff(want, dimensions); diff != "" {
		t.Error(diff)
	}
}

// TestVariantsDecideAsThePipeline: a variant with the pipeline's quantile makes the pipeline's decisions, also of a pool
// with limits.
func TestVariantsDecideAsThePipeline(t *testing.T) {
	cfg := RunConfig{Trace: writeTrace(t, 3*time.Hour), Pool: testPool(t)}
	cfg.Pool.Limits.RequestsPerMin = 20
	r, err := newRunner(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	variant := newVariant(r.pool, r.cfg.Decision, r.own.set[0])
	pool, ofVariant := NewFluidPool(r.pool, r.demand.Start, r.cfg.Seed), NewFluidPool(r.pool, r.demand.Start, r.cfg.Seed)
	err = r.read("run", func(log *Source, timed bool) error {
		p := pipeline.New(r.pipelineConfig(timed))
		var batch ingest.Batch
		decisions := 0
		for {
			if err := log.Next(&batch); errors.Is(err, io.EOF) {
				if decisions < 150 {
					t.Errorf("%d decisions in three hours, want 150 or more", decisions)
				}
				return nil
			} else if err != nil {
				return err
			}
			if batch.Watermark != nil {
				load := r.demand.At(pool.now)
				pool.Step(load)
				ofVariant.Step(load)
				batch.Replicas = pool.Reports(batch.Replicas)
			}
			p.Apply(&batch, func(out *pipeline.Output) {
				for i := range out.Pools {
					x, d := &out.Pools[i], out.Pools[i].Decision
					other := variant.decide(out, x, x.Forecast.Load(), ofVariant)
					pool.SetDesired(d.Desired)
					if d.Desired != other.Desired || d.Probability != other.Probability || d.Binding != other.Binding || d.Pending != other.Pending || len(d.Limits) != len(other.Limits) {
						t.Fatalf("%s: the pipeline wants %d (%d pending, P %g of %s), the variant %d (%d pending, P %g of %s)", out.Tick,
							d.Desired, d.Pending, d.Probability, d.Binding, other.Desired, other.Pending, other.Probability, other.Binding)
					}
					decisions++
				}
			})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestScoresAgreeWithTheForecasts: the error of the summary is that of the table of forecasts against the trace.
func TestScoresAgreeWithTheForecasts(t *testing.T) {
	dir := t.TempDir()
	trace := writeTrace(t, 4*time.Hour)
	cfg := RunConfig{Trace: trace, Forecasts: filepath.Join(dir, "f.csv")}
	s := mustRun(t, cfg)
	r, err := newRunner(t.Context(), RunConfig{Trace: cfg.Trace})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := readRows(cfg.Forecasts)
	if err != nil {
		t.Fatal(err)
	}
	wrong, total := map[string]float64{}, map[string]float64{}
	for _, row := range rows[1:] {
		if row[1] != features.TotalClass || row[2] != features.DimDecode {
			continue
		}
		origin, _ := strconv.Atoi(row[0])
		median, _ := strconv.ParseFloat(row[4], 64)
		from, to := 15, 30
		if h, err := strconv.Atoi(row[3]); err == nil {
			from, to = h, h
		}
		y := math.Inf(-1)
		for h := from; h <= to; h++ {
			y = math.Max(y, r.demand.At(DefaultStart.Add(time.Duration(origin)*time.Second+time.Duration(h-1)*time.Minute)).Of(features.DimDecode))
		}
		if !math.IsNaN(y) {
			wrong[row[3]] += math.Abs(median - y)
			total[row[3]] += y
		}
	}
	seen := 0
	for _, score := range s.Scores {
		if score.Class != features.TotalClass || score.Dimension != features.DimDecode {
			continue
		}
		seen++
		if want := wrong[score.Horizon] / total[score.Horizon]; math.Abs(float64(score.WAPE)/want-1) > 1e-4 {
			t.Errorf("horizon %s: WAPE %g, the table gives %g", score.Horizon, float64(score.WAPE), want)
		}
	}
	if seen != len(scoredMinutes)+1 {
		t.Errorf("%d horizons scored, want %d", seen, len(scoredMinutes)+1)
	}
}

func TestRunRefusesWrongConfigurations(t *testing.T) {
	trace := "testdata/requests.csv"
	for want, cfg := range map[string]RunConfig{
		"no trace":                             {},
		"every 1m30s is not a positive number": {Trace: trace, Every: 90 * time.Second},
		"score-from 1 is out of":               {Trace: trace, ScoreFrom: 1},
		`unknown policy "best"`:                {Trace: trace, Policies: []string{"best"}},
		"no such file":                         {Trace: "testdata/none.csv"},
		`report is "none/page.html"`:           {Trace: trace, Report: "none/page.html"},
		"peak-replicas -1":                     {Trace: trace, PeakReplicas: -1},
		"warmup-p50: 0s":                       {Trace: trace, Warmup: capacity.Lag{P90: time.Minute}},
	} {
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, RunConfig{Trace: trace}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestRunReportsProgress(t *testing.T) {
	var stages []string
	s := mustRun(t, RunConfig{
		Trace: "testdata/requests.csv", Every: time.Minute,
		Options: Options{Progress: func(stage string, read, total int64) {
			if total == 0 || read > total {
				t.Errorf("progress %s %d of %d", stage, read, total)
			}
			if len(stages) == 0 || stages[len(stages)-1] != stage {
				stages = append(stages, stage)
			}
		}},
	})
	if s.Trace.Rows != 3 || s.Minutes != 1 {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]string{"scan", "run"}, stages); diff != "" {
		t.Error(diff)
	}
}

// TestRunObeysTheConfiguration: the pool's time per token changes decisions, and max_classes limits the classes.
func TestRunObeysTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	trace := writeTrace(t, 2*time.Hour)
	run := func(itl time.Duration, maxClasses int) (decisions, forecasts string) {
		pool, f := testPool(t), features.DefaultConfig()
		pool.ITL, f.MaxClasses = itl, maxClasses
		cfg := RunConfig{Trace: trace, Decisions: filepath.Join(dir, "d.csv"), Forecasts: filepath.Join(dir, "f.csv"), Pool: pool, Features: &f}
		mustRun(t, cfg)
		return read(t, cfg.Decisions), read(t, cfg.Forecasts)
	}
	fast, all := run(25*time.Millisecond, 256)
	slow, limited := run(100*time.Millisecond, 1)
	if fast == slow {
		t.Error("decisions are the same with four times the time per token")
	}
	if overflow := "," + features.OverflowClass + ","; strings.Contains(all, overflow) || !strings.Contains(limited, overflow) {
		t.Errorf("class %s: %v with at most 256 classes, %v with one; want false, true", features.OverflowClass, strings.Contains(all, overflow), strings.Contains(limited, overflow))
	}
}

func TestWideBinsAreNoted(t *testing.T) {
	for bin, want := range map[time.Duration]bool{time.Minute: false, 10 * time.Minute: true} {
		s := mustRun(t, RunConfig{Trace: write(t, "t_s,class,requests\n0,taxi,5\n600,taxi,6\n1200,taxi,7\n"), Options: Options{Bin: bin}})
		if got := slices.Contains(s.Trace.Notes, wideBins); got != want {
			t.Errorf("bins of %s: notes %q; the note on wide bins: %v, want %v", bin, s.Trace.Notes, got, want)
		}
	}
}

// TestLongHole: all minutes of a hole of more than a week are counted.
func TestLongHole(t *testing.T) {
	s := mustRun(t, RunConfig{Trace: write(t, "t_s,class,prompt_tokens,output_tokens\n0,c,10,10\n691200,c,10,10\n")})
	if s.Minutes != 8*day+1 || s.Holes != 8*day-1 {
		t.Errorf("%d minutes, %d in holes; want %d, all but two in holes", s.Minutes, s.Holes, 8*day+1)
	}
}

// TestHoles: minutes that are missing in the log do not count as minutes without traffic. In a hole there is no
// scale-in, no forecast and no score. After it, forecasts continue at the level before it.
func TestHoles(t *testing.T) {
	const from, to, end = 49 * time.Hour, 54 * time.Hour, 55 * time.Hour
	var b strings.Builder
	fmt.Fprintln(&b, "t_s,class,prompt_tokens,cached_tokens,output_tokens,session")
	for _, a := range requestsOf(WorkloadConfig{Rate: .2, Classes: DefaultClasses()[:1]}, 5, end) {
		if at := a.ArrivedAt.Sub(DefaultStart); at < from || at >= to {
			fmt.Fprintf(&b, "%.3f,%s,%d,%d,%d,\n", at.Seconds(), a.Class, a.PromptTokens, a.CachedTokens, a.OutputTokens)
		}
	}
	dir := t.TempDir()
	cfg := RunConfig{
		Trace: write(t, b.String()), Forecasts: filepath.Join(dir, "f.csv"), Decisions: filepath.Join(dir, "d.csv"),
		Policies: []string{"reactive_floor"},
	}
	s := mustRun(t, cfg)
	cells := func(path string, each func(at time.Duration, row []string)) {
		rows, err := readRows(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			seconds, err := strconv.Atoi(row[0])
			if err != nil {
				t.Fatal(err)
			}
			each(time.Duration(seconds)*time.Second, row)
		}
	}
	medians := map[time.Duration]float64{}
	cells(cfg.Forecasts, func(at time.Duration, row []string) {
		if row[1] == features.TotalClass && row[2] == features.DimRequests && row[3] == "15" {
			medians[at], _ = strconv.ParseFloat(row[4], 64)
		}
	})
	before, after := medians[from], medians[to+15*time.Minute]
	if n := len(medians); n != int((end-(to-from))/(15*time.Minute)) || s.Origins != n || s.Holes != int((to-from)/time.Minute) || before == 0 || after < before/3 {
		t.Errorf("%d origins written, %d counted, %d minutes of holes; forecast of %g requests/s where the hole begins, %g a quarter of an hour after its end",
			n, s.Origins, s.Holes, before, after)
	}
	least, n := math.Inf(1), 0
	var kept float64
	ready, asked := map[time.Duration]string{}, map[time.Duration]string{} // replicas of the rival
	cells(cfg.Decisions, func(at time.Duration, row []string) {
		if row[2] != ForewarmPolicy {
			ready[at], asked[at] = row[3], row[5]
			return
		}
		desired, _ := strconv.ParseFloat(row[5], 64)
		if at == from {
			kept = desired
		}
		if at > from && at <= to {
			least, n = min(least, desired), n+1
		}
	})
	if n != int((to-from)/time.Minute) || kept < 2 || least < kept {
		t.Errorf("%d decisions in the hole, for %g replicas or more; %g before it", n, least, kept)
	}
	if before, after := asked[from], ready[to+time.Minute]; before == "" || before != after || asked[to-time.Hour] != "" {
		t.Errorf("a rival wants %q replicas where the hole begins, %q in it, and has %q after it", before, asked[to-time.Hour], after)
	}
	for _, x := range s.Scores { // two origins after the hole are half an hour before the end
		if want := int((from-30*time.Minute)/(15*time.Minute)) + 2; x.Class == features.TotalClass && x.Horizon == "30" && x.N != want {
			t.Errorf("%s: %d forecasts are scored, want %d", x.Dimension, x.N, want)
		}
	}
}
