package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/pipeline"
)

func config(dir string) Config {
	c := DefaultConfig()
	c.Dir = dir
	return c
}

func openStore(t *testing.T, cfg Config) *Store {
	t.Helper()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	s := must(OpenStore(cfg, quiet))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func minute(m int) time.Time { return start.Add(time.Duration(m) * time.Minute) }

func window(class string, m int, requests float64) features.Window {
	return features.Window{
		Key: features.Key{Pool: "p", Class: class}, Start: minute(m), Covered: true, Settled: true,
		Requests: requests, Known: features.ReportsRequests, Records: requests,
	}
}

// forecast has the value 100·h + level index in minute h, and 1600 + level index as window maximum.
func forecast(class string, origin int) forecaster.Forecast {
	f := forecaster.Forecast{Key: features.Key{Pool: "p", Class: class}, Dimension: features.DimRequests, Origin: minute(origin)}
	for i := range forecaster.NumLevels {
		for h := range f.Minute {
			f.Minute[h][i] = float64(100*(h+1) + i)
		}
		f.WindowMax[i] = float64(1600 + i)
	}
	return f
}

// appendTick stores a tick of a pool with two classes: the windows of the minute before it, forecasts and a decision.
func appendTick(t *testing.T, s *Store, m int) {
	t.Helper()
	if err := tryTick(s, m); err != nil {
		t.Fatal(err)
	}
}

func tryTick(s *Store, m int) error {
	d := decision(m, "p")
	d.Resources = []alerting.ResourceEvidence{{Dimension: features.DimRequests, PerReplica: 10, Probability: .5,
		ETA: forecaster.ETA{P10: time.Minute, P50: forecaster.Never, P90: forecaster.Never}}}
	out := poolOutput(m, forecaster.PoolForecast{
		Pool: "p", Origin: minute(m),
		Classes: []forecaster.Forecast{forecast("chat", m)}, Total: []forecaster.Forecast{forecast("*", m)},
	}, d)
	out.Windows = []features.Window{window("chat", m-1, 60*float64(m)), window("rag", m-1, 30)}
	return s.Append(out)
}

// poolOutput is a tick with the results of one pool.
func poolOutput(m int, f forecaster.PoolForecast, d *alerting.Decision) *pipeline.Output {
	return &pipeline.Output{Tick: minute(m), Pools: []pipeline.PoolOutput{{Pool: f.Pool, Forecast: f, Decision: d}}}
}

// TestStoreLeavesRoom: with less free space than Reserve nothing is written, and each tick returns a FullError.
func TestStoreLeavesRoom(t *testing.T) {
	s, free := openStore(t, config(t.TempDir())), int64(Reserve)
	s.free = func(string) (int64, error) { return free, nil }
	appendTick(t, s, 1)
	free = Reserve - 1
	var full *FullError
	if err := tryTick(s, 2); !errors.As(err, &full) || full.free != Reserve-1 {
		t.Errorf("with too little free space: %v", err)
	}
	free = Reserve
	appendTick(t, s, 3)
	if c := s.Counters(); c.LostTicks != 1 || count(t, s) != 2*samplesPerTick {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff([]string{"1=4", "3=4"}, desired(t, s)); diff != "" {
		t.Error(diff)
	}
}

// samplesPerTick is the number of samples of appendTick: requests of two classes and their total, two forecasts, five
// values of the pool, six of a resource.
const samplesPerTick = 3 + 2*5*forecaster.NumLevels + 5 + 6

// dump has every sample as "t=v", with t in minutes, by series.
func dump(t *testing.T, s *Store, name string) map[string][]string {
	t.Helper()
	return samplesOf(t, s.Queryable(), labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, name))
}

// count is the number of stored samples.
func count(t *testing.T, s *Store) (n int) {
	t.Helper()
	for _, samples := range dump(t, s, ".+") {
		n += len(samples)
	}
	return n
}

func samplesOf(t *testing.T, from promstorage.Queryable, matchers ...*labels.Matcher) map[string][]string {
	t.Helper()
	q := must(from.Querier(math.MinInt64, math.MaxInt64))
	defer q.Close()
	out := map[string][]string{}
	set := q.Select(context.Background(), true, nil, matchers...)
	for set.Next() {
		key := set.At().Labels().String()
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			at, v := it.At()
			out[key] = append(out[key], fmt.Sprintf("%g=%g", float64(at-start.UnixMilli())/60000, v))
		}
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStoreSeries(t *testing.T) {
	s := openStore(t, config(t.TempDir()))
	appendTick(t, s, 1)
	appendTick(t, s, 2)
	split := decision(3, "split")
	split.ByRole = &alerting.Roles{Prefill: 2, Decode: 3}
	if err := s.Append(poolOutput(3, forecaster.PoolForecast{}, split)); err != nil {
		t.Fatal(err)
	}
	got := dump(t, s, "forewarm_demand_requests_per_second|forewarm_desired_replicas|forewarm_saturation_eta_seconds")
	want := map[string][]string{
		`{__name__="forewarm_demand_requests_per_second", class="*", pool="p"}`:                       {"1=1.5", "2=2.5"},
		`{__name__="forewarm_demand_requests_per_second", class="chat", pool="p"}`:                    {"1=1", "2=2"},
		`{__name__="forewarm_demand_requests_per_second", class="rag", pool="p"}`:                     {"1=0.5", "2=0.5"},
		`{__name__="forewarm_desired_replicas", pool="p", role="all"}`:                                {"1=4", "2=3"},
		`{__name__="forewarm_desired_replicas", pool="split", role="all"}`:                            {"3=4"},
		`{__name__="forewarm_desired_replicas", pool="split", role="decode"}`:                         {"3=3"},
		`{__name__="forewarm_desired_replicas", pool="split", role="prefill"}`:                        {"3=2"},
		`{__name__="forewarm_saturation_eta_seconds", pool="p", quantile="0.1", resource="requests"}`: {"1=60", "2=60"},
		`{__name__="forewarm_saturation_eta_seconds", pool="p", quantile="0.5", resource="requests"}`: {"1=+Inf", "2=+Inf"},
		`{__name__="forewarm_saturation_eta_seconds", pool="p", quantile="0.9", resource="requests"}`: {"1=+Inf", "2=+Inf"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(dump(t, s, ForecastSeries)); n != 2*5*forecaster.NumLevels {
		t.Errorf("%d forecast series", n)
	}
}

// TestStoreTotals: a total is the sum of the classes that report the dimension.
func TestStoreTotals(t *testing.T) {
	s := openStore(t, config(t.TempDir()))
	withKV, withoutKV := window("chat", 0, 60), window("rag", 0, 60)
	withKV.Known |= features.ReportsKV
	withKV.KVTokenSeconds = 6000
	if err := s.Append(&pipeline.Output{Tick: minute(1), Windows: []features.Window{withKV, withoutKV}}); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		`{__name__="forewarm_demand_kv_tokens", class="*", pool="p"}`:    {"1=100"},
		`{__name__="forewarm_demand_kv_tokens", class="chat", pool="p"}`: {"1=100"},
	}
	if diff := cmp.Diff(want, dump(t, s, "forewarm_demand_kv_.+")); diff != "" {
		t.Error(diff)
	}
}

// TestStoreReplayAfterRestart: after a restart some ticks are appended again. They are not stored twice, and the next
// tick is stored.
func TestStoreReplayAfterRestart(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, config(dir))
	for m := 1; m <= 300; m++ {
		appendTick(t, s, m)
	}
	if n, series := count(t, s), s.db.Head().NumSeries(); n != 300*samplesPerTick || series != samplesPerTick {
		t.Fatalf("%d samples of %d series", n, series)
	}
	want := dump(t, s, ".+")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openStore(t, config(dir))
	for m := 200; m <= 300; m++ {
		appendTick(t, s, m)
	}
	if diff := cmp.Diff(StoreCounters{}, s.Counters()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, dump(t, s, ".+")); diff != "" {
		t.Error(diff)
	}
	appendTick(t, s, 301)
	if n := count(t, s); n != 301*samplesPerTick {
		t.Errorf("%d samples", n)
	}
}

// TestStoreAheadOfTheClock: a clock was a year ahead. Ticks that are earlier than the stored ones are lost and counted, and
// the error says what to do. Ticks that are stored, or that have nothing to store, are no error.
func TestStoreAheadOfTheClock(t *testing.T) {
	const year = 365 * 24 * 60
	dir := t.TempDir()
	s := openStore(t, config(dir))
	for _, m := range []int{1, 2, year} {
		appendTick(t, s, m)
	}
	for _, when := range []string{"before", "after"} {
		appendTick(t, s, 2)
		if err := s.Append(&pipeline.Output{Tick: minute(3)}); err != nil {
			t.Errorf("%s the restart, a tick without a decision: %v", when, err)
		}
		err := tryTick(s, 4)
		if newest := minute(year).Format(time.RFC3339); err == nil || !strings.Contains(err.Error(), newest) || !strings.Contains(err.Error(), "move "+s.dir+" away") {
			t.Errorf("%s the restart: %v", when, err)
		}
		if c := s.Counters(); c.LostTicks != 1 {
			t.Errorf("%s the restart: %+v", when, c)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, config(dir))
	}
	appendTick(t, s, year+1)
}

// TestStoreRefusesAndCounts: windows that are unsettled, unknown or too old are refused. Series above max_series are
// dropped.
func TestStoreRefusesAndCounts(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.MaxSeries = 101 // two classes and a part of the third
	s := openStore(t, cfg)
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	unsettled := window("chat", 0, 60)
	unsettled.Settled = false
	future := window("chat", 1, 60) // ends after the tick
	unknown := window("rag", 0, 60)
	unknown.Covered = false
	err := s.Append(&pipeline.Output{Tick: minute(1), Windows: []features.Window{unsettled, future, unknown}})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Counters(); c.Refused == 0 || count(t, s) != 0 {
		t.Errorf("%+v", c)
	}

	var classes []forecaster.Forecast
	for _, class := range []string{"*", "chat", "code", "rag"} {
		classes = append(classes, forecast(class, 2))
	}
	for range 2 { // the second time changes nothing
		err = s.Append(poolOutput(2, forecaster.PoolForecast{Total: classes[:1], Classes: classes[1:]}, nil))
		if err != nil {
			t.Fatal(err)
		}
	}
	c := s.Counters()
	if series := s.db.Head().NumSeries(); series != 101 || count(t, s) != 101 || c.Capped != 4*45-101 {
		t.Errorf("%d series, %+v", series, c)
	}

	// Series without new samples are removed with a compaction, so that others have room.
	for m := 2; m <= 2+6*60; m += 60 {
		err = s.Append(poolOutput(m, forecaster.PoolForecast{Total: []forecaster.Forecast{forecast("*", m)}}, nil))
		if err != nil {
			t.Fatal(err)
		}
		s.maintaining <- struct{}{} // waits for a compaction that the tick has begun
		<-s.maintaining
	}
	if series := s.db.Head().NumSeries(); series != 5*forecaster.NumLevels {
		t.Errorf("%d series are left, want those of the total", series)
	}
	c = s.Counters()
	// A window that is too old for the TSDB is counted and logged, and is no error.
	err = s.Append(&pipeline.Output{Tick: minute(3 + 6*60), Windows: []features.Window{window("old", 1, 60)}})
	if now := s.Counters(); err != nil || now.Refused <= c.Refused || strings.Count(log.String(), "a sample cannot be stored") != 1 {
		t.Errorf("%v, %+v, log %s", err, now, log.String())
	}
}

// TestHistory reads stored demand and forecasts back.
func TestHistory(t *testing.T) {
	s := openStore(t, config(t.TempDir()))
	for _, m := range []int{1, 2, 4} {
		appendTick(t, s, m)
	}
	h := History{Series: s}
	got := map[string][]float64{}
	err := h.Observed(context.Background(), minute(0), minute(5), func(k features.Key, dimension string, values []float64) error {
		got[k.String()+"/"+dimension] = append([]float64(nil), values...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	want := map[string][]float64{
		"p/*/requests": {1.5, 2.5, nan, 4.5, nan}, "p/chat/requests": {1, 2, nan, 4, nan}, "p/rag/requests": {.5, .5, nan, .5, nan},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}

	var seen []string
	err = h.Forecasts(context.Background(), minute(2), minute(5), func(f *forecaster.Forecast) error {
		seen = append(seen, f.Key.String()+" "+f.Origin.Format("15:04"))
		want := forecast(f.Class, 0)
		for h := range f.Minute {
			kept := h+1 == 5 || h+1 == 15 || h+1 == 30 || h+1 == 60
			if kept && f.Minute[h] != want.Minute[h] || !kept && !math.IsNaN(f.Minute[h][0]) {
				t.Errorf("minute %d is %v", h+1, f.Minute[h])
			}
		}
		if f.WindowMax != want.WindowMax || f.Dimension != features.DimRequests || !math.IsNaN(f.Last) {
			t.Errorf("%+v", f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"p/* 00:02", "p/* 00:04", "p/chat 00:02", "p/chat 00:04"}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestConfigCheck(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"dir":            func(c *Config) { c.Dir = "" },
		"retention":      func(c *Config) { c.Retention = time.Hour },
		"max_bytes":      func(c *Config) { c.MaxBytes = 1 },
		"snapshot_every": func(c *Config) { c.SnapshotEvery = 0 },
		"max_series":     func(c *Config) { c.MaxSeries = 1 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Check(); err == nil || err.Error()[:len(name)] != name {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	c := DefaultConfig()
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// BenchmarkAppendTick appends ticks of ten classes, about 2600 samples each.
func BenchmarkAppendTick(b *testing.B) {
	s := must(OpenStore(config(b.TempDir()), quiet))
	defer s.Close()
	pf := forecaster.PoolForecast{Pool: "p"}
	for c := range 10 {
		for d := range 5 {
			f := forecast(fmt.Sprint("class", c), 0)
			f.Dimension = fmt.Sprint("dimension", d)
			pf.Classes = append(pf.Classes, f)
		}
	}
	for m := 0; b.Loop(); m++ {
		appendForecasts(b, s, pf, m)
	}
	b.ReportMetric(float64(b.N*len(pf.Classes)*5*forecaster.NumLevels)/b.Elapsed().Seconds(), "samples/s")
}

// appendForecasts appends a tick with the forecasts of a pool.
func appendForecasts(b *testing.B, s *Store, pf forecaster.PoolForecast, m int) {
	b.Helper()
	for i := range pf.Classes {
		pf.Classes[i].Origin = minute(m)
	}
	if err := s.Append(poolOutput(m, pf, nil)); err != nil {
		b.Fatal(err)
	}
}

// TestOtherClassesAreSummed: the shown classes have series of their own, also of forecasts. _other is the sum of the
// other classes and of the overflow class. The total of the pool has all classes.
func TestOtherClassesAreSummed(t *testing.T) {
	s := openStore(t, config(t.TempDir()))
	s.Shown = func(key features.Key) bool { return key.Class != "a" && key.Class != "c" }
	windows := []features.Window{
		window("_other", 0, 3000), window("a", 0, 60), window("b", 0, 600), window("c", 0, 120), window("d", 0, 1200),
	}
	forecasts := forecaster.PoolForecast{Pool: "p", Total: []forecaster.Forecast{forecast("*", 1)}}
	for _, class := range []string{"_other", "a", "b"} {
		forecasts.Classes = append(forecasts.Classes, forecast(class, 1))
	}
	out := poolOutput(1, forecasts, nil)
	out.Windows = windows
	if err := s.Append(out); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for class, perSecond := range map[string]string{"*": "83", "_other": "53", "b": "10", "d": "20"} {
		want[fmt.Sprintf(`{__name__="forewarm_demand_requests_per_second", class=%q, pool="p"}`, class)] = []string{"1=" + perSecond}
	}
	if diff := cmp.Diff(want, dump(t, s, "forewarm_demand_requests_per_second")); diff != "" {
		t.Error(diff)
	}
	if n := len(dump(t, s, ForecastSeries)); n != 2*5*forecaster.NumLevels {
		t.Errorf("%d forecast series, want those of the total and one class", n)
	}
	if c := s.Counters(); c.Capped != 0 {
		t.Errorf("%+v", c)
	}
}

// BenchmarkTickBesideCompaction measures ticks of 20,000 series with and without a compaction at the same time, and how
// long a restart reads the log. Each must be far below a minute.
func BenchmarkTickBesideCompaction(b *testing.B) {
	cfg := config(b.TempDir())
	cfg.MaxSeries = 20_000
	s := must(OpenStore(cfg, quiet))
	pf := forecaster.PoolForecast{Pool: "p"}
	for c := range cfg.MaxSeries / (5 * forecaster.NumLevels) {
		pf.Classes = append(pf.Classes, forecast(fmt.Sprint("class", c), 0))
	}
	var alone, beside time.Duration
	m, compactions := 1, 0
	for b.Loop() {
		for range 240 { // four hours: at least one compaction
			busy := len(s.maintaining) > 0
			began := time.Now()
			appendForecasts(b, s, pf, m)
			took := time.Since(began)
			if m++; busy {
				beside, compactions = max(beside, took), compactions+1
			} else {
				alone = max(alone, took)
			}
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	s = must(OpenStore(cfg, quiet))
	b.ReportMetric(float64(s.db.Head().NumSeries()), "series")
	b.ReportMetric(float64(compactions), "ticks-beside")
	b.ReportMetric(alone.Seconds()*1000, "max-ms/tick-alone")
	b.ReportMetric(beside.Seconds()*1000, "max-ms/tick-beside")
	b.ReportMetric(time.Since(began).Seconds()*1000, "ms/restart")
	_ = s.Close()
}

var (
	quiet = slog.New(slog.DiscardHandler)
	start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
)

// one finds the only file of a pattern.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	return paths[0]
}

func decision(minute int, pool string) *alerting.Decision {
	return &alerting.Decision{
		Pool: pool, Tick: start.Add(time.Duration(minute) * time.Minute), Sequence: uint64(minute * 10),
		Action: alerting.Hold, Ready: 3, Desired: 3 + minute%2, Probability: 0.25,
		Expires: start.Add(time.Duration(minute)*time.Minute + 1500*time.Millisecond),
		ETA:     forecaster.ETA{P10: time.Minute, P50: forecaster.Never, P90: forecaster.Never},
		Reason:  "demand fits",
	}
}

// fillDirectory writes a block of two ticks and a log of two.
func fillDirectory(t *testing.T, dir string) {
	t.Helper()
	s := openStore(t, config(dir))
	for m := 1; m <= 3; m++ {
		appendTick(t, s, m)
	}
	if err := s.db.CompactHead(tsdb.NewRangeHead(s.db.Head(), math.MinInt64, minute(2).UnixMilli())); err != nil {
		t.Fatal(err)
	}
	appendTick(t, s, 4)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
