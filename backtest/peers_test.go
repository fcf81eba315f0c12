package backtest

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
)

var (
	traceDir  = flag.String("traces", "", "compare Forewarm with other forecasters on the public traces in this `directory`")
	peerDir   = flag.String("peers", "", "`directory` of other forecasters and their bench.sh: score their forecasts again")
	peerSet   = flag.String("peer-set", "", "run bench.sh for forecasts that are missing: fast, slow or all")
	peerTable = flag.String("table", "", "replace the section of this Markdown `file`")
)

// peerFigures has the scores of other forecasters, so that only Forewarm is run when it has changed.
const peerFigures = "testdata/peers.csv"

// TestPeers compares Forewarm with other forecasters on public traces. Series, origins and reference are the same for
// all. Each trace runs through the whole pipeline, as in backtest -forecasts.
func TestPeers(t *testing.T) {
	if *traceDir == "" {
		t.Skip("give -traces, as make bench-accuracy does")
	}
	var all []*peerSeries
	var wait sync.WaitGroup
	onsets := make([][]onset, len(peerTraces))
	alarms, err := readAlarms(alarmFigures)
	if err != nil {
		t.Fatal(err)
	}
	var lock sync.Mutex
	peer := func(s *peerSeries, a *alarm) {
		if quality, ok := a.peer(t, s); ok {
			lock.Lock()
			defer lock.Unlock()
			alarms[s.name()] = quality
		}
	}
	for i, tr := range peerTraces {
		series := readSeries(t, tr)
		all = append(all, series...)
		wait.Add(1)
		go func() {
			defer wait.Done()
			onsets[i] = tr.forecast(t, series, peer)
		}()
	}
	wait.Wait()
	figures, err := readFigures(peerFigures)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := readLosses(peerLosses)
	if err != nil {
		t.Fatal(err)
	}
	if *peerDir != "" {
		for _, s := range all {
			figures.add(s.peers(t)...)
			s.peersEverywhere(t, kept)
		}
		if err := errors.Join(figures.write(peerFigures), writeAlarms(alarmFigures, alarms), writeLosses(peerLosses, kept)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		s.checkCheap(t, figures)
	}
	section := comparison(all, figures, kept, slices.Concat(onsets...), alarms)
	t.Log("\n" + section)
	if *peerTable != "" {
		if err := replaceSection(*peerTable, section); err != nil {
			t.Fatal(err)
		}
	}
}

// replaceSection replaces the section with the same heading, or appends the section to the file.
func replaceSection(path, section string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	heading, _, _ := strings.Cut(section, "\n")
	before, rest, found := strings.Cut(string(old), heading+"\n")
	if found {
		if i := strings.Index(rest, "\n## "); i >= 0 {
			section += rest[i:]
		}
	} else if before = strings.TrimRight(before, "\n") + "\n\n"; before == "\n\n" {
		before = ""
	}
	return os.WriteFile(path, []byte(before+section), 0o644)
}

// peers scores the forecasts of other forecasters. With -peer-set it first runs those whose forecasts are missing.
func (s *peerSeries) peers(t *testing.T) (out []figure) {
	dir := filepath.Join(*peerDir, "forewarm")
	forecasts := filepath.Join(dir, "out", s.name())
	if err := errors.Join(os.MkdirAll(forecasts, 0o755), s.write(dir)); err != nil {
		t.Fatal(err)
	}
	if *peerSet != "" {
		base := filepath.Join(dir, s.name())
		c := exec.CommandContext(t.Context(), filepath.Join(*peerDir, "bench.sh"), base+".csv", base+".origins", forecasts, *peerSet)
		output, err := c.CombinedOutput()
		t.Logf("%s: %v\n%s", s.name(), err, output)
	}
	files, err := filepath.Glob(filepath.Join(forecasts, "*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		f, err := s.scoreFile(path)
		if err != nil {
			t.Logf("%s: %v", path, err)
			continue
		}
		out = append(out, f)
	}
	return out
}

// forecast runs a trace through the pipeline. It scores the series at their origins, and the onset alarms of pools at
// each origin of the last third. It calls peer for pools with enough events.
func (tr peerTrace) forecast(t *testing.T, series []*peerSeries, peer func(s *peerSeries, a *alarm)) (out []onset) {
	r, err := newRunner(t.Context(), RunConfig{
		Trace: filepath.Join(*traceDir, tr.file), Options: Options{Start: tr.start},
		Every: originGrid * time.Minute, ScoreFrom: 2.0 / 3,
	})
	if err != nil {
		t.Error(err)
		return nil
	}
	of := map[seriesKey]*peerSeries{}
	alarms := map[seriesKey]*alarm{}
	for _, s := range series {
		of[s.seriesKey] = s
		s.own = newTally(s)
		if s.class == features.TotalClass || tr.models {
			alarms[s.seriesKey] = newAlarm(s.y)
		}
	}
	take := func(f *forecaster.Forecast) {
		key := seriesKey{f.Class, f.Dimension}
		s, o := of[key], int(f.Origin.Sub(tr.start)/time.Minute)
		if s == nil || o+forecaster.WindowTo > len(s.y) {
			return
		}
		if a := alarms[key]; a != nil {
			a.add(o, s.y, 1-f.WindowMax.CDF(a.capacity))
		}
		if o%everywhereGrid != 0 || o < len(s.y)/3 {
			return
		}
		var x quantiles
		for h := range x {
			if h < forecastMinutes {
				x[h] = scoredLevels(&f.Minute[h])
			} else {
				x[h] = scoredLevels(&f.WindowMax)
			}
		}
		s.everywhere = append(s.everywhere, s.outcome(o, &x))
		if slices.Contains(s.origins, o) {
			s.own.add(o, &x)
		}
	}
	if err := r.read("run", func(log *Source, timed bool) error {
		p := pipeline.New(r.pipelineConfig(timed))
		var batch ingest.Batch
		for {
			if err := log.Next(&batch); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			p.Apply(&batch, func(out *pipeline.Output) {
				for i := range out.Pools {
					for _, fs := range [][]forecaster.Forecast{out.Pools[i].Forecast.Total, out.Pools[i].Forecast.Classes} {
						for j := range fs {
							take(&fs[j])
						}
					}
				}
			})
		}
	}); err != nil {
		t.Error(err)
	}
	for key, a := range alarms {
		o := a.judge(of[key])
		if out = append(out, o); o.quality != nil && *peerDir != "" {
			peer(of[key], a)
		}
	}
	slices.SortFunc(out, func(a, b onset) int {
		return cmp.Or(-cmp.Compare(a.dimension, b.dimension), cmp.Compare(a.class, b.class))
	})
	return out
}

func scoredLevels(q *forecaster.Quantiles) (out [len(forecaster.ScoredLevels)]float64) {
	for i, level := range forecaster.ScoredLevels {
		out[i] = q[level]
	}
	return out
}

func TestReplaceSection(t *testing.T) {
	path := write(t, "# Page\n\n| table |\n")
	for _, want := range []string{"# Page\n\n| table |\n\n## A\n\none\n", "# Page\n\n| table |\n\n## A\n\ntwo\n"} {
		_, body, _ := strings.Cut(want, "## A")
		if err := replaceSection(path, "## A"+body); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := os.WriteFile(path, []byte("## A\n\nold\n\n## B\n\nstays\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replaceSection(path, "## A\n\nnew\n"); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, path), "## A\n\nnew\n\n## B\n\nstays\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestComparison scores files of other forecasters. One has the forecasts of the reference: its scores are 1. In one
// an origin is missing: there it has the forecast of the reference. One knows the future: it wins.
func TestComparison(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := &peerSeries{trace: "trace", seriesKey: seriesKey{features.TotalClass, features.DimDecode}}
	for range 600 {
		s.y = append(s.y, 100+10*r.NormFloat64())
	}
	s.origins = drawOrigins(len(s.y))
	s.own = newTally(s)
	dir := t.TempDir()
	files := map[string]*strings.Builder{"reference": {}, "late": {}, "oracle": {}}
	for i, o := range s.origins {
		q := s.reference(o)
		for h := 1; h <= forecastMinutes+1; h++ {
			y := slices.Max(s.y[o+forecaster.WindowFrom-1 : o+forecaster.WindowTo])
			if h <= forecastMinutes {
				y = s.y[o+h-1]
			}
			line := fmt.Sprintf("%d,%d", o-1, h)
			for k := range q[h-1] {
				line += fmt.Sprintf(",%.17g", q[h-1][k]*60)
			}
			files["reference"].WriteString(line + "\n")
			if i > 0 {
				files["late"].WriteString(line + "\n")
			}
			fmt.Fprintf(files["oracle"], "%d,%d,%.17g,,,,\n", o-1, h, y*60)
		}
		s.own.add(o, &q)
	}
	fs := figures{}
	for name, b := range files {
		path := filepath.Join(dir, name+".csv")
		if err := os.WriteFile(path, []byte("origin,h,q50,q80,q90,q95,q99\n"+b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := s.scoreFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fs.add(f)
	}
	path := filepath.Join(dir, "figures.csv")
	if err := fs.write(path); err != nil {
		t.Fatal(err)
	}
	fs, err := readFigures(path)
	if err != nil {
		t.Fatal(err)
	}
	name := s.name()
	for peer, want := range map[string]figure{
		"reference": {series: name, peer: "reference", pinball: 1, peak: 1, wape: 1},
		"late":      {series: name, peer: "late", failed: 1, pinball: 1, peak: 1, wape: 1},
		"oracle":    {series: name, peer: "oracle", point: true},
	} {
		got := fs[[2]string{name, peer}]
		want.mean = got.mean
		for _, x := range []*float64{&got.pinball, &got.peak, &got.wape} {
			*x = math.Round(*x*1e9) / 1e9
		}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if m := fs[[2]string{name, "late"}].mean; math.Abs(m-100) > 1 {
		t.Errorf("the mean is %v, want about 100", m)
	}
	section := comparison([]*peerSeries{s}, fs, nil, []onset{{series: "trace.ALL.decode", pool: "trace decode", origins: 90, events: 5, episodes: 2, quality: slices.Repeat([]alarmQuality{{.9, .6}}, 1+len(alarmScores))}},
		map[string]peerAlarm{"trace.ALL.decode": {90, 5, alarmQuality{.8, .4}}})
	for _, want := range []string{
		"| oracle \\* | 1 | 0.100 (1.000) |", "does **not** hold against oracle (+900.0 %), late (+0.0 %), reference (+0.0 %)", // ratios are at least leastRatio
		"does **not** hold on 1 of 1 series", "the worst is 1.000", "| trace.ALL.decode | 1.00 | **0.00** oracle |", "| trace decode | 5 in 2 | 0.900, 0.60 | 0.800, 0.40 |",
	} {
		if !strings.Contains(section, want) {
			t.Errorf("no %q in\n%s", want, section)
		}
	}
}
