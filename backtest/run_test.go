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

// writeTrace writes synthetic traffic as a native CSV, up to a time; it is thinned so that a test takes little time.
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
	run := func(name string) (Summary, []byte) {
		cfg := RunConfig{
			Trace: writeTrace(t, 4*time.Hour), Forecasts: filepath.Join(dir, name+".csv.gz"), Decisions: filepath.Join(dir, name+"-d.csv"),
			Summary: filepath.Join(dir, name+".json"), Policies: policies, Sweep: true, Seed: 3, PeakReplicas: 6,
		}
		s := mustRun(t, cfg)
		var all []byte
		for _, path := range []string{cfg.Forecasts, cfg.Decisions} {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
		return s, all
	}
	a, files := run("a")
	b, again := run("b")
	a.Trace, b.Trace = TraceSummary{}, TraceSummary{} // the paths differ
	if diff := cmp.Diff(a, b, cmp.Comparer(func(x, y Number) bool { return x == y || math.IsNaN(float64(x)) && math.IsNaN(float64(y)) })); diff != "" || !bytes.Equal(files, again) {
		t.Errorf("two runs differ: %s", diff)
	}
	if a.Minutes < 230 || a.Minutes > 240 || a.Origins != a.Minutes/15 {
		t.Errorf("%d minutes, %d origins, want almost 240, an origin each quarter", a.Minutes, a.Origins)
	}
	settings := map[string]int{}
	for _, r := range a.Policies {
		settings[r.Policy]++
		if !(r.GPUHours > 0) || !(r.SLOAttainment > 0 && r.SLOAttainment <= 1) || !(r.SaturatedShare >= 0) {
			t.Errorf("%+v", r)
		}
		if r.Policy == "static_peak" && r.Knob == "share=1" && r.SaturatedShare != 0 {
			t.Errorf("as many replicas as the peak needs, and yet saturated: %+v", r)
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
	raw, err := os.ReadFile(filepath.Join(dir, "a.json"))
	if err != nil {
		t.Fatal(err)
	}
	var decoded struct {
		Scores []struct {
			Class, Dimension, Horizon string
			WAPE                      *float64
		}
		Policies []struct {
			SaturatedShare *float64 `json:"saturated_share"`
		}
	}
	if err := json.Unmarshal(raw, &decoded); err != nil {
		t.Fatal(err)
	}
	if len(decoded.Scores) == 0 || decoded.Scores[0].Class != features.TotalClass || decoded.Scores[0].WAPE == nil || len(decoded.Policies) != len(a.Policies) {
		t.Errorf("summary %s", raw[:min(len(raw), 400)])
	}
	checkForecasts(t, filepath.Join(dir, "a.csv.gz"))
}

// checkForecasts reads the table as a consumer would: 31 rows per series and origin, quantiles that do not cross.
func checkForecasts(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
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

// A variant decides as the pipeline itself does when it has the same quantile.
func TestVariantsDecideAsThePipeline(t *testing.T) {
	cfg := RunConfig{Trace: writeTrace(t, 3*time.Hour), Pool: testPool(t)}
	r, err := newRunner(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	twin := newVariant(r.pool, r.cfg.Decision, r.quantile())
	obeys, twins := NewFluidPool(r.pool, r.demand.Start, r.cfg.Seed), NewFluidPool(r.pool, r.demand.Start, r.cfg.Seed)
	err = r.read("run", func(next nextBatch, timed bool) error {
		p := pipeline.New(r.pipelineConfig(timed))
		var batch ingest.Batch
		decisions := 0
		for {
			if err := next(&batch); errors.Is(err, io.EOF) {
				if decisions < 150 {
					t.Errorf("%d decisions in three hours", decisions)
				}
				return nil
			} else if err != nil {
				return err
			}
			if batch.Watermark != nil {
				load := r.demand.At(obeys.now)
				obeys.Step(load)
				twins.Step(load)
				batch.Replicas = obeys.Reports(batch.Replicas)
			}
			p.Apply(&batch, func(out *pipeline.Output) {
				for i, d := range out.Decisions {
					other := twin.decide(out.Tick, out.Sequence, &out.Forecasts[i], p.Calibrator(r.pool.Name), twins)
					obeys.SetDesired(d.Desired)
					if d.Desired != other.Desired || d.Probability != other.Probability || d.Binding != other.Binding || d.Pending != other.Pending {
						t.Fatalf("%s: the pipeline wants %d (%d pending, P %g of %s), its twin %d (%d pending, P %g of %s)", out.Tick,
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

// What is scored is what the table says against what the trace says.
func TestScoresAgreeWithTheForecasts(t *testing.T) {
	dir := t.TempDir()
	trace := writeTrace(t, 4*time.Hour)
	cfg := RunConfig{Trace: trace, Forecasts: filepath.Join(dir, "f.csv")}
	s := mustRun(t, cfg)
	r, err := newRunner(t.Context(), RunConfig{Trace: cfg.Trace})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(cfg.Forecasts)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
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

func TestRunTellsItsProgress(t *testing.T) {
	var stages []string
	s := mustRun(t, RunConfig{
		Trace: "testdata/requests.csv", Every: time.Minute,
		Progress: func(stage string, read, total int64) {
			if total == 0 || read > total {
				t.Errorf("progress %s %d of %d", stage, read, total)
			}
			if len(stages) == 0 || stages[len(stages)-1] != stage {
				stages = append(stages, stage)
			}
		},
	})
	if s.Trace.Rows != 3 || s.Minutes != 1 {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]string{"scan", "run"}, stages); diff != "" {
		t.Error(diff)
	}
}

// The pool's own speed, and how traffic is aggregated, are what was configured.
func TestRunObeysTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	trace := writeTrace(t, 2*time.Hour)
	run := func(itl time.Duration, maxClasses int) (decisions, forecasts string) {
		pool, f := testPool(t), features.DefaultConfig()
		pool.Rates.ITL, f.MaxClasses = itl, maxClasses
		cfg := RunConfig{Trace: trace, Decisions: filepath.Join(dir, "d.csv"), Forecasts: filepath.Join(dir, "f.csv"), Pool: pool, Features: &f}
		mustRun(t, cfg)
		for path, to := range map[string]*string{cfg.Decisions: &decisions, cfg.Forecasts: &forecasts} {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			*to = string(b)
		}
		return decisions, forecasts
	}
	fast, each := run(25*time.Millisecond, 256)
	slow, pooled := run(100*time.Millisecond, 1)
	if fast == slow {
		t.Error("four times the time per token decides the same")
	}
	if overflow := "," + features.OverflowClass + ","; strings.Contains(each, overflow) || !strings.Contains(pooled, overflow) {
		t.Error("max_classes is not what was configured")
	}
}

func TestWideBinsAreNoted(t *testing.T) {
	for bin, want := range map[time.Duration]bool{time.Minute: false, 10 * time.Minute: true} {
		s := mustRun(t, RunConfig{Trace: write(t, "t_s,class,requests\n0,taxi,5\n600,taxi,6\n1200,taxi,7\n"), Options: Options{Bin: bin}})
		if got := slices.Contains(s.Trace.Notes, wideBins); got != want {
			t.Errorf("bins of %s: notes %q", bin, s.Trace.Notes)
		}
	}
}

// A hole in the log is not taken for a pool that has gone quiet: nothing is scaled in, written or scored while it
// lasts, and forecasts go on from where they were.
func TestHolesAreNoSilence(t *testing.T) {
	const from, to, end = 49 * time.Hour, 54 * time.Hour, 55 * time.Hour
	var b strings.Builder
	fmt.Fprintln(&b, "t_s,class,prompt_tokens,cached_tokens,output_tokens,session")
	for _, a := range requestsOf(WorkloadConfig{Rate: .2, Classes: DefaultClasses()[:1]}, 5, end) {
		if at := a.ArrivedAt.Sub(DefaultStart); at < from || at >= to {
			fmt.Fprintf(&b, "%.3f,%s,%d,%d,%d,\n", at.Seconds(), a.Class, a.PromptTokens, a.CachedTokens, a.OutputTokens)
		}
	}
	dir := t.TempDir()
	cfg := RunConfig{Trace: write(t, b.String()), Forecasts: filepath.Join(dir, "f.csv"), Decisions: filepath.Join(dir, "d.csv")}
	s := mustRun(t, cfg)
	cells := func(path string, each func(at time.Duration, row []string)) {
		all, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(all)).ReadAll()
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
		t.Errorf("%d origins written, %d counted, %d minutes of holes; at the hole's begin %g requests/s are expected, a quarter of an hour after its end %g", n, s.Origins, s.Holes, before, after)
	}
	least, n := math.Inf(1), 0
	var kept float64
	cells(cfg.Decisions, func(at time.Duration, row []string) {
		desired, _ := strconv.ParseFloat(row[5], 64)
		if at == from {
			kept = desired
		}
		if at > from && at <= to {
			least, n = min(least, desired), n+1
		}
	})
	if n != int((to-from)/time.Minute) || kept < 2 || least < kept {
		t.Errorf("%d decisions in the hole, the least for %g replicas, %g before it", n, least, kept)
	}
	for _, x := range s.Scores { // two origins after the hole are half an hour before the end
		if want := int((from-30*time.Minute)/(15*time.Minute)) + 2; x.Class == features.TotalClass && x.Horizon == "30" && x.N != want {
			t.Errorf("%s: %d forecasts are scored, want %d", x.Dimension, x.N, want)
		}
	}
}
