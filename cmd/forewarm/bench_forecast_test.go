package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// augursEnv names a directory in which `npm install @bsull/augurs` was run.
const augursEnv = "FOREWARM_AUGURS"

// crowd is the traffic of many classes of one pool. Class k has 1000/(1+k) requests a minute on average, so most
// classes are silent in most minutes.
type crowd struct {
	draw    *rand.Rand
	names   []string
	windows []features.Window
}

// crowdSpan is the number of minutes in the windows of a tick: the newest, and earlier ones whose records still come.
const crowdSpan = 3

func newCrowd(classes int) *crowd {
	c := &crowd{draw: rand.New(rand.NewPCG(1, uint64(classes)))}
	for i := range classes {
		c.names = append(c.names, fmt.Sprintf("class-%06d", i*7919%classes))
	}
	slices.Sort(c.names)
	return c
}

// tick adds the windows of the minute before t. It returns all windows in the order of features.Aggregator.Close.
func (c *crowd) tick(t time.Time) []features.Window {
	fresh := make([]features.Window, len(c.names))
	for k := range fresh {
		n, rate := 0.0, 1000/float64(1+k*7919%len(c.names))
		if c.draw.Float64() < rate {
			n = math.Ceil(rate * c.draw.ExpFloat64())
		}
		const reports = features.ReportsRequests | features.ReportsPrompt | features.ReportsOutput | features.ReportsKV
		fresh[k] = features.Window{
			Key: features.Key{Pool: "chat", Class: c.names[k]}, Start: t.Add(-time.Minute), Covered: true,
			Reports: reports, Known: reports, Records: n, Requests: n, KVKnown: n,
			PromptTokens: 900 * n, OutputTokens: 200 * n, KVTokenSeconds: 12_000 * n,
		}
	}
	c.windows = append(c.windows, fresh...)
	c.windows = c.windows[max(0, len(c.windows)-crowdSpan*len(c.names)):]
	for k := range len(c.windows) - len(fresh) {
		w := &c.windows[k]
		w.PromptTokens, w.OutputTokens, w.KVTokenSeconds = 1.02*w.PromptTokens, 1.02*w.OutputTokens, 1.02*w.KVTokenSeconds
	}
	return c.windows
}

// forecasts measures pools of few and many classes: the time to learn and forecast a minute, and the memory of a class.
func (b *bench) forecasts() (rows []row) {
	const history, ticks = 75, 5
	dims := len(features.Forecast)
	var first, light float64
	for _, classes := range []int{1250, 12_500} {
		c, empty := newCrowd(classes), heap()
		f := forecaster.New(forecaster.Config{Settle: 10 * time.Minute})
		least := time.Duration(math.MaxInt64)
		for m := range history + ticks {
			t := benchStart.Add(time.Duration(m+1) * time.Minute)
			windows, pools := c.tick(t), []features.PoolMinute{{Pool: "chat", Start: t.Add(-time.Minute), Covered: true, LastEvent: t}}
			used := cpuTime(b.t)
			f.Observe(windows, pools)
			if m < history {
				continue // the last ticks are timed, and none of them ranks classes
			}
			if pf := f.Forecast(t); len(pf) != 1 || len(pf[0].Total) != dims || len(pf[0].Total[0].Paths) != forecaster.NumPaths {
				b.t.Fatal("no forecast of the pool")
			}
			least = min(least, cpuTime(b.t)-used)
		}
		c.windows = nil
		size := heap() - empty
		runtime.KeepAlive(f)
		runtime.KeepAlive(c)
		light = least.Seconds() / float64(classes*dims)
		what := fmt.Sprintf("Learning and forecasting a minute of %d classes × %d dimensions, with paths, totals and window maxima", classes, dims)
		cost := fmt.Sprintf("%.2f s of CPU time, %.0f µs per series", least.Seconds(), 1e6*light)
		if first == 0 {
			first = light
			rows = append(rows, row{what, cost, ""})
			continue
		}
		saved := 0
		b.check(f.Parts(func(part any) error {
			data, err := cbor.Marshal(part)
			saved += len(data)
			return err
		}))
		rows = append(rows,
			row{what, cost + fmt.Sprintf(", %.2f × that of 1250 classes", light/first), "< 6 s on two cores"},
			row{fmt.Sprintf("Heap of the forecasts of a class, mean of %d", classes), fmt.Sprintf("%.1f KiB, %.1f KiB in a snapshot", size/float64(classes)/(1<<10), float64(saved)/float64(classes)/(1<<10)), "≤ 30 KiB"})
	}
	return append(rows, b.refits(time.Duration(light*float64(time.Second)))...)
}

// refits compares learning a minute of one series and forecasting 60 with a fit of augurs' MSTL and ETS to a week of
// minutes. light is the time for one series of many.
func (b *bench) refits(light time.Duration) (rows []row) {
	const week, ticks = 7 * 1440, 200
	draw := rand.New(rand.NewPCG(2, 3))
	f, values := forecaster.New(forecaster.Config{Settle: 10 * time.Minute}), make([]float64, week)
	var used time.Duration
	for m := range values {
		z := 30 + 10*math.Sin(2*math.Pi*float64(m)/1440) + 2*draw.NormFloat64()
		values[m] = math.Round(z * z)
		at := benchStart.Add(time.Duration(m) * time.Minute)
		if m == week-ticks {
			used = cpuTime(b.t)
		}
		f.Observe([]features.Window{{
			Key: features.Key{Pool: "chat", Class: "agent"}, Start: at, Covered: true, Settled: true,
			Reports: features.ReportsRequests, Requests: values[m], Known: features.ReportsRequests,
		}}, nil)
		if m >= week-ticks {
			f.Forecast(at.Add(time.Minute))
		}
	}
	full := (cpuTime(b.t) - used) / (2 * ticks) // the class and the pool's total
	refit, err := augurs(values)
	for _, x := range []struct {
		series string
		took   time.Duration
	}{{"a displayed series, with the paths of its pool", full}, {"one of many series", light}} {
		result := fmt.Sprintf("%.0f × (%v and %v of CPU time)", float64(refit)/float64(x.took), refit.Round(time.Millisecond), x.took.Round(time.Microsecond))
		if err != nil {
			result = fmt.Sprintf("not measured, because %v; %v of CPU time", err, x.took.Round(time.Microsecond))
		}
		rows = append(rows, row{"Learning one minute and forecasting 60 minutes of " + x.series + ", compared with fitting augurs' MSTL with ETS on a week of minutes", result, "≥ 1000 ×"})
	}
	return rows
}

// augurs returns the time to fit MSTL with ETS and to forecast an hour at five levels: the faster of two runs.
func augurs(values []float64) (time.Duration, error) {
	dir := os.Getenv(augursEnv)
	if dir == "" {
		return 0, errors.New(augursEnv + " names no directory with the npm package @bsull/augurs")
	}
	data, err := json.Marshal(values)
	if err != nil {
		return 0, err
	}
	cmd := exec.Command("node", "--input-type=module")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`
		import fs from 'node:fs';
		const augurs = await import('@bsull/augurs/mstl');
		await augurs.default({module_or_path: fs.readFileSync('node_modules/@bsull/augurs/mstl_bg.wasm')});
		const y = Float64Array.from(%s);
		let least = Infinity;
		for (let i = 0; i < 2; i++) {
			const t = process.cpuUsage();
			const m = augurs.MSTL.ets(Uint32Array.of(1440));
			m.fit(y);
			for (const level of [0.6, 0.8, 0.9, 0.98]) m.predict(60, level); // the median and four upper quantiles
			least = Math.min(least, process.cpuUsage(t).user);
		}
		console.log(least);`, data))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("node: %w", err)
	}
	var micros float64
	if _, err := fmt.Sscan(string(out), &micros); err != nil {
		return 0, err
	}
	return time.Duration(micros) * time.Microsecond, nil
}
