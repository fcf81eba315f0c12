package backtest

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

var (
	comparePolicies = flag.Bool("policies", false, "compare scaling policies on the traces")
	compareDraws    = flag.Int("draws", 1, "draw the warm-ups, and synthetic traces, from so many seeds")
	comparePools    = flag.String("pools", "", "compare policies only on pools whose name matches this `expression`, and do not write the table")
)

// policyPool is a pool whose demand is a public trace, or one class of it.
type policyPool struct {
	name, file, only string
	start            time.Time
	make             func() requests // of a synthetic pool
}

// requests returns the requests of a minute of a synthetic trace.
type requests func(minute int, rng *rand.Rand) float64

// policyPools are the public traces of a day or more, and two synthetic ones without a pattern. The longest come last.
var policyPools = []policyPool{
	{name: "m365 modelC-prod", file: "sageserve_m365_1min.csv.gz", only: "modelC-prod"},
	{name: "m365 modelA-dev", file: "sageserve_m365_1min.csv.gz", only: "modelA-dev"},
	{name: "m365 modelC-dev", file: "sageserve_m365_1min.csv.gz", only: "modelC-dev"},
	{name: "azure2024", file: "azure2024_conv_week_1in40_recon.csv.gz", start: time.Date(2024, 5, 12, 0, 0, 0, 0, time.UTC)},
	{name: "azure2024, 10-minute bins", file: "azure2024_conv_week_10min_digitised.csv.gz", start: time.Date(2024, 5, 12, 0, 0, 0, 0, time.UTC)},
	{name: "flat", make: func() requests { return func(int, *rand.Rand) float64 { return 600 } }},
	{name: "random walk", make: randomWalk},
	{name: "agentic", file: "agentic_claude_7d.csv.gz"},
	{name: "mm-image, 1 day", file: "servegen_mm_image_1d.csv.gz"},
	{name: "deepseek-r1, 1 day", file: "servegen_deepseek_r1_1d.csv.gz"},
	{name: "sgA", file: "servegen_sgA_14d.csv.gz"},
}

// randomWalk returns a level that moves by 2 % a minute, and tends to 600.
func randomWalk() requests {
	level := 0.
	return func(_ int, rng *rand.Rand) float64 {
		level = .998*level + .02*rng.NormFloat64()
		return 600 * math.Exp(level)
	}
}

// policyReplicas is the number of replicas that the busiest minute needs.
const policyReplicas = 20

// TestPolicyBenchmark compares the policies on each pool, as backtest -policies all -sweep does.
func TestPolicyBenchmark(t *testing.T) {
	if *traceDir == "" || !*comparePolicies {
		t.Skip("give -traces and -policies, as make bench-policies does")
	}
	chosen, err := regexp.Compile(*comparePools)
	if err != nil {
		t.Fatal(err)
	}
	var rows []policyRow
	for _, p := range policyPools {
		if !chosen.MatchString(p.name) {
			continue
		}
		began := time.Now()
		all, err := p.compare(t)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		rows = append(rows, policyRow{p.name, all})
		t.Logf("%s in %s\n%s", p.name, time.Since(began).Round(time.Second), policySection(rows[len(rows)-1:]))
		if *peerTable != "" && *comparePools == "" { // after each pool: the test takes hours
			if err := replaceSection(*peerTable, policySection(rows)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// compare runs each policy on the pool, with several draws of warm-ups and, of a synthetic pool, of the trace.
func (p *policyPool) compare(t *testing.T) (all []Comparison, err error) {
	for draw := range *compareDraws {
		s, err := Run(t.Context(), RunConfig{
			Trace: p.path(t, draw), Options: Options{Start: p.start, Only: p.only}, Policies: []string{"all"}, Sweep: true,
			Seed: 1 + uint64(draw), ScoreFrom: 2. / 3, PeakReplicas: policyReplicas, Warmup: capacity.Lag{P50: 6 * time.Minute, P90: 12 * time.Minute},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, s.Comparisons...)
	}
	return all, nil
}

// path returns the trace's file. It writes a synthetic trace first: three days of sums by the minute.
func (p *policyPool) path(t *testing.T, run int) string {
	if p.make == nil {
		return filepath.Join(*traceDir, p.file)
	}
	rng, demand := rand.New(rand.NewPCG(1, 2+uint64(run))), p.make()
	var b strings.Builder
	b.WriteString("t_s,class,requests,prompt_tokens,cached_tokens,output_tokens\n")
	for m := range 3 * day {
		n := demand(m, rng)
		n += math.Sqrt(n) * rng.NormFloat64()
		fmt.Fprintf(&b, "%d,chat,%.0f,%.0f,,%.0f\n", m*60, n, 900*n, 200*n)
	}
	path := filepath.Join(t.TempDir(), "made.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// policyRow is one pool of the table.
type policyRow struct {
	pool string
	all  []Comparison // of every draw at every target
}

// at returns the comparisons of each draw at a target.
func (r *policyRow) at(target float64) (draws []Comparison) {
	for _, c := range r.all {
		if float64(c.SaturatedShare) == target {
			draws = append(draws, c)
		}
	}
	return draws
}

// of returns the mean of a figure over draws, and its range.
func of(draws []Comparison, figure func(*Comparison) float64) (mean, low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range draws {
		x := figure(&draws[i])
		mean, low, high = mean+x/float64(len(draws)), min(low, x), max(high, x)
	}
	return mean, low, high
}

// overDraws returns a cell with the mean over draws, and the range of several draws.
func overDraws(format string, draws []Comparison, figure func(*Comparison) float64) string {
	mean, low, high := of(draws, figure)
	if math.IsNaN(mean) || len(draws) == 1 {
		return cell(format, mean)
	}
	return fmt.Sprintf("%s (%s to %s)", cell(format, mean), cell(format, low), cell(format, high))
}

// hours returns a function that returns the cost of a policy.
func hours(policy string) func(*Comparison) float64 {
	return func(c *Comparison) float64 { return c.hours(policy) }
}

// rival reports whether Forewarm is compared with the policy.
func (p *PolicySpec) rival() bool { return p.Name != ForewarmPolicy && p.Name != OraclePolicy }

// bestRival returns the rival that costs least over all draws.
func bestRival(draws []Comparison) (name string) {
	least := math.Inf(1)
	for i := range Policies {
		if p := &Policies[i]; p.rival() {
			if mean, _, _ := of(draws, hours(p.Name)); mean < least {
				name, least = p.Name, mean
			}
		}
	}
	return name
}

const policyHead = `## Policies at equal saturation

GPU-hours (replicas, with those that warm up) for the same share of saturated minutes in the last third of each trace. They
are read from each policy's curve over its first knob. The other knobs have the values that cost least in the first two
thirds. The pools are fluid. Their busiest minute needs %d replicas, which warm up in 6 minutes (median; 90th percentile 12).
All policies have the same draws, and decide each minute. The oracle knows the future: it is the cheapest plan for the demand
and the warm-ups that occurred. *Closed* is the share of the GPU-hours between the best rival and the oracle that Forewarm saves.
*Saturated* is its share of saturated minutes divided by the best rival's, at equal GPU-hours. – is a share that no setting
reaches. With several draws of warm-ups (and of synthetic traces), figures are means, with the range in brackets. The first
knob is chosen in the scored part, for all policies. For static_peak it is the size of the pool, so this policy is given the
level of the last third, which no operator knows.
Made by ` + "`make bench-policies TRACES=…`" + `.
`

// policySection writes the section: a table for each target, with a row for each pool, then reversedActions and
// tunedSettings.
func policySection(rows []policyRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, policyHead, policyReplicas)
	for _, target := range Targets {
		fmt.Fprintf(&b, "\n| at %g %% saturated minutes | best rival | | reactive_floor | Forewarm | oracle | closed | saturated |\n|---|---|---|---|---|---|---|---|\n", 100*target)
		var closed []float64
		worse := 0
		for _, r := range rows {
			draws := r.at(target)
			best := bestRival(draws)
			gap := func(c *Comparison) float64 { return 100 * float64(c.GapClosed) }
			if mean, _, _ := of(draws, gap); !math.IsNaN(mean) {
				closed = append(closed, mean/100)
			}
			own, _, _ := of(draws, hours(ForewarmPolicy))
			if floor, _, _ := of(draws, hours("reactive_floor")); own > floor {
				worse++
			}
			fmt.Fprintf(&b, "| %s | %s |", r.pool, best)
			for _, name := range []string{best, "reactive_floor", ForewarmPolicy, OraclePolicy} {
				fmt.Fprintf(&b, " %s |", overDraws("%.0f", draws, hours(name)))
			}
			fmt.Fprintf(&b, " %s | %s |\n", overDraws("%.0f %%", draws, gap), overDraws("%.2f", draws, func(c *Comparison) float64 { return float64(c.SaturationRatio) }))
		}
		sum := 0.
		for _, x := range closed {
			sum += x
		}
		fmt.Fprintf(&b, "\nMean closed: %s of %d pools; Forewarm costs more than the reactive floor on %d.\n", cell("%.0f %%", 100*sum/float64(len(closed))), len(closed), worse)
	}
	reversedActions(&b, rows)
	tunedSettings(&b, rows)
	return b.String()
}

// reversedActions writes how often each policy removes a replica before it can have served.
func reversedActions(b *strings.Builder, rows []policyRow) {
	fmt.Fprintf(b, `
GPU-hours at %g %% saturated minutes, and the share of the scaling actions that removed a replica which was asked for less
than the warm-up's 90th percentile before. The actions are those of the setting that cost least at this target in the first
two thirds, in the first draw.

|`, 100*Targets[0])
	var policies []string
	for i := range Policies {
		if p := &Policies[i]; p.Name != OraclePolicy && p.Name != RecordedPolicy {
			policies = append(policies, p.Name)
		}
	}
	fmt.Fprintf(b, " | %s |\n|%s\n", strings.Join(policies, " | "), strings.Repeat("---|", len(policies)+1))
	for _, r := range rows {
		fmt.Fprintf(b, "| %s |", r.pool)
		for _, name := range policies {
			fmt.Fprintf(b, " %s |", r.all[0].withReversed(name))
		}
		b.WriteString("\n")
	}
}

// withReversed returns a policy's cost and the share of its actions that are reversed.
func (c *Comparison) withReversed(policy string) string {
	for _, x := range c.Costs {
		if x.Policy == policy {
			return cell("%.0f", float64(x.GPUHours)) + ", " + cell("%.0f %%", 100*float64(x.Tuned.ReversedShare))
		}
	}
	return "–"
}

// hours returns the cost of a policy, NaN if it was not run.
func (c *Comparison) hours(policy string) float64 {
	for _, x := range c.Costs {
		if x.Policy == policy {
			return float64(x.GPUHours)
		}
	}
	return math.NaN()
}

// tunedSettings writes the results of the settings that cost least at the first target in the first two thirds.
func tunedSettings(b *strings.Builder, rows []policyRow) {
	fmt.Fprintf(b, "\nThe settings that cost least at %g %% in the first two thirds, and their saturated minutes and GPU-hours in the last, in the first draw.\n\n| | Forewarm | best rival |\n|---|---|---|\n", 100*Targets[0])
	for _, r := range rows {
		c := &r.all[0]
		fmt.Fprintf(b, "| %s | %s | %s |\n", r.pool, c.carried(ForewarmPolicy), c.carried(c.BestRival))
	}
}

// carried returns a policy's setting and its result.
func (c *Comparison) carried(policy string) string {
	for _, x := range c.Costs {
		if x.Policy == policy {
			return fmt.Sprintf("%s %s: %s, %s", policy, x.Tuned.Knob, cell("%.2f %%", 100*float64(x.Tuned.SaturatedShare)), cell("%.0f", float64(x.Tuned.GPUHours)))
		}
	}
	return "–"
}

// cell formats a number of the table. Without one it is a dash.
func cell(format string, x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return fmt.Sprintf(format, x)
}
