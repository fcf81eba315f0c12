package backtest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// tablesOf runs a backtest over a trace. It returns the tables of forecasts and, when the pool is given, of decisions.
func tablesOf(t *testing.T, trace string, pool *capacity.Pool) (tables string) {
	t.Helper()
	dir := t.TempDir()
	cfg := RunConfig{Trace: write(t, trace), Pool: pool, Every: 5 * time.Minute, Forecasts: filepath.Join(dir, "f.csv")}
	if pool != nil {
		cfg.Decisions = filepath.Join(dir, "d.csv")
	}
	mustRun(t, cfg)
	for _, path := range []string{cfg.Forecasts, cfg.Decisions} {
		if path == "" {
			continue
		}
		tables += read(t, path)
	}
	return tables
}

// upTo returns the rows of tables up to a time.
func upTo(table string, until time.Duration) string {
	var kept strings.Builder
	for line := range strings.Lines(table) {
		at, _, _ := strings.Cut(line, ",")
		if s, err := strconv.Atoi(at); err != nil || s <= int(until.Seconds()) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// TestFutureIsNotSeen: forecasts and decisions up to an origin do not depend on records after it. The test replaces
// these records with garbage, and cuts them off. It does so with a given pool, and with one that is sized for the
// trace.
func TestFutureIsNotSeen(t *testing.T) {
	const cut = 90 * time.Minute
	var past, future, garbage bytes.Buffer
	fmt.Fprintln(&past, "t_s,class,prompt_tokens,cached_tokens,output_tokens,session")
	for _, a := range requestsOf(WorkloadConfig{Rate: .3, Classes: DefaultClasses()[2:4]}, 6, cut+40*time.Minute) {
		s, session := a.ArrivedAt.Sub(DefaultStart).Seconds(), a.Session
		if s < cut.Seconds() {
			fmt.Fprintf(&past, "%.3f,%s,%d,%d,%d,%x\n", s, a.Class, a.PromptTokens, a.CachedTokens, a.OutputTokens, session)
			continue
		}
		fmt.Fprintf(&future, "%.3f,%s,%d,%d,%d,%x\n", s, a.Class, a.PromptTokens, a.CachedTokens, a.OutputTokens, session)
		for i := range 3 {
			fmt.Fprintf(&garbage, "%.3f,%s,%d,%d,%d,%x\n", s, []string{"!", "zz", a.Class}[i], 90_000, 0, 9_000, session)
		}
	}
	requests, bins := past.String(), binned(t, past.String())
	for _, tc := range []struct {
		name                   string
		past, follows, garbage string
		pool                   *capacity.Pool
	}{
		{"a given pool", requests, future.String(), garbage.String(), testPool(t)},
		{"a pool sized for the trace's peak", requests, future.String(), garbage.String(), nil},
		{"bins", bins, "5400,chat,1,2,,3\n", "5400,!,9e9,9e9,,9e9\n5460,zz,1,1,,1\n", testPool(t)},
	} {
		want := tablesOf(t, tc.past+tc.follows, tc.pool)
		if diff := cmp.Diff(upTo(want, cut), upTo(tablesOf(t, tc.past+tc.garbage, tc.pool), cut)); diff != "" {
			t.Errorf("%s: garbage after the origin changes rows before it (-without +with garbage):\n%.2000s", tc.name, diff)
		}
		last := cut - 5*time.Minute // the last origin of a trace that ends before the cut
		part := upTo(want, last)
		if diff := cmp.Diff(part, upTo(tablesOf(t, tc.past, tc.pool), last)); diff != "" {
			t.Errorf("%s: the end of the trace changes rows before it (-whole +cut):\n%.2000s", tc.name, diff)
		}
		if n := strings.Count(part, "\n"); n < 17 {
			t.Errorf("%s: %d rows, want 17 or more", tc.name, n)
		}
	}
}

// binned turns a trace of requests into a trace of sums by the minute.
func binned(t *testing.T, requests string) string {
	t.Helper()
	type key struct {
		minute int
		class  string
	}
	sums, order := map[key][3]float64{}, []key{}
	for _, line := range strings.Split(strings.TrimSpace(requests), "\n")[1:] {
		f := strings.Split(line, ",")
		s, _ := strconv.ParseFloat(f[0], 64)
		prompt, _ := strconv.ParseFloat(f[2], 64)
		output, err := strconv.ParseFloat(f[4], 64)
		if err != nil {
			t.Fatal(err)
		}
		k := key{int(s / 60), f[1]}
		if _, ok := sums[k]; !ok {
			order = append(order, k)
		}
		x := sums[k]
		sums[k] = [3]float64{x[0] + 1, x[1] + prompt, x[2] + output}
	}
	var b strings.Builder
	b.WriteString("t_s,class,requests,prompt_tokens,cached_tokens,output_tokens\n")
	for _, k := range order {
		fmt.Fprintf(&b, "%d,%s,%g,%g,,%g\n", k.minute*60, k.class, sums[k][0], sums[k][1], sums[k][2])
	}
	return b.String()
}
