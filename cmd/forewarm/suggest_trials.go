package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// trials are the changes that are tried, and the configurations that are run for them.
type trials struct {
	arms []backtest.Arm
	list []trial
}

// inForce is the arm of the configuration as it is.
const inForce = 0

// trial is one change.
type trial struct {
	kind          string // of several of a kind the best is suggested
	key, from, to string
	why, note     string
	after         int    // the arm with it
	judged        [2]int // arms without and with it, by which it is judged
}

var (
	// triedQuantiles are of demand to provide for.
	triedQuantiles = []float64{.5, .7, .8, .9, .95, .98, .99, .995}
	triedCooldowns = []time.Duration{2 * time.Minute, 5 * time.Minute, 15 * time.Minute}
	triedSteps     = []int{1, 4} // replicas given up at a time
)

// lagDiffers is by which factor a learned lag must differ from the prior for the prior to be questioned.
const lagDiffers = 1.2

func (t *trials) run(a backtest.Arm) int {
	t.arms = append(t.arms, a)
	return len(t.arms) - 1
}

// add lists a change with an arm that is compared with the configuration in force.
func (t *trials) add(x trial, a backtest.Arm) {
	x.after = t.run(a)
	x.judged = [2]int{inForce, x.after}
	t.list = append(t.list, x)
}

// trials are the fixed set of changes. Reserves are not among them: a week without a failure says nothing of what they
// are kept for.
func (p *pastPool) trials(decision alerting.Config, pools int) *trials {
	t, base := &trials{}, backtest.Arm{Pool: p.pool, Decision: decision}
	t.run(base)
	inUse := backtest.Quantile(&p.pool, decision)
	for _, tau := range triedQuantiles {
		if tau == inUse {
			continue
		}
		x := trial{kind: "margin", key: p.key + ".quantile", from: share(inUse), to: share(tau), why: "The margin cost more than what it saved from was worth."}
		if tau > inUse {
			x.why = "Demand that found no replica cost more than a larger margin would have."
		}
		a := base
		a.Pool.Quantile = tau
		t.add(x, a)
	}
	for _, cooldown := range triedCooldowns {
		if cooldown == decision.Cooldown || !reaches(&p.pool.Warmup, decision.Hold, cooldown) {
			continue
		}
		x := trial{kind: "cooldown", key: "decision.cooldown", from: lasting(decision.Cooldown), to: lasting(cooldown), why: "Replicas were kept that were not missed later."}
		if cooldown > decision.Cooldown {
			x.why = "Replicas were given up that were soon missed."
		}
		a := base
		a.Decision.Cooldown = cooldown
		t.add(x, a)
	}
	for _, step := range triedSteps {
		if step == decision.ScaleInStep {
			continue
		}
		x := trial{kind: "step", key: "decision.scale_in_step", from: strconv.Itoa(decision.ScaleInStep), to: strconv.Itoa(step), why: "Demand fell faster than replicas were given up."}
		if decision.ScaleInStep == 0 || step < decision.ScaleInStep {
			x.why = "Replicas were given up that were soon missed."
		}
		a := base
		a.Decision.ScaleInStep = step
		t.add(x, a)
	}
	for i := range t.list {
		if pools > 1 && strings.HasPrefix(t.list[i].key, "decision.") {
			t.list[i].note = "The key is that of all pools, the effect that on this one. "
		}
	}
	p.tryPrior(t, base)
	return t
}

// tryPrior begins with the warm-up lag that replicas had, where that differs from the prior.
func (p *pastPool) tryPrior(t *trials, base backtest.Arm) {
	stated, took := capacity.Lag{P50: p.pool.Warmup.Quantile(.5), P90: p.pool.Warmup.Quantile(.9)}, p.Lag
	differs := func(a, b time.Duration) bool { return max(a, b).Seconds() >= lagDiffers*min(a, b).Seconds() }
	if p.lags < fewestLags || !differs(stated.P50, took.P50) && !differs(stated.P90, took.P90) {
		return
	}
	a := base
	a.Pool.Warmup = capacity.NewWarmup(took.P50, took.P90)
	if !reaches(&a.Pool.Warmup, base.Decision.Hold, base.Decision.Cooldown) {
		return
	}
	t.add(trial{
		kind: "prior", key: p.key + ".warmup", from: lagText(stated), to: lagText(took),
		why:  fmt.Sprintf("Of %d replicas half took longer than %s to become ready, one in ten longer than %s.", p.lags, lasting(took.P50), lasting(took.P90)),
		note: "A prior matters until the lag is learned: at a first start, and when the lag changes. The figures are of a first start on each day. ",
	}, a)
	base.Forgets, a.Forgets = true, true
	t.list[len(t.list)-1].judged = [2]int{t.run(base), t.run(a)}
}

// reaches says whether the forecast's horizon holds a warm-up and what is looked ahead beyond it.
func reaches(w *capacity.Warmup, beyond ...time.Duration) bool {
	return forecaster.LeadTime(w)+slices.Max(beyond) <= forecaster.Horizon*features.Minute
}

// judge chooses, of each kind, the change that gains most of those that are better beyond noise.
func (t *trials) judge(o backtest.Objective, days [][]backtest.Account) (chosen []*trial) {
	gains := map[string]float64{}
	for i := range t.list {
		x := &t.list[i]
		before, after := days[x.judged[0]], days[x.judged[1]]
		gain := o.Gain(before, after)
		if gain <= gains[x.kind] || !o.Better(before, after, len(t.list)) {
			continue
		}
		gains[x.kind] = gain
		chosen = append(slices.DeleteFunc(chosen, func(c *trial) bool { return c.kind == x.kind }), x)
	}
	return chosen
}

// tried says what each change came to, by keys.
func (t *trials) tried(chosen int, days [][]backtest.Account) string {
	came := func(arm int) string {
		a := backtest.Sum(days[arm])
		return fmt.Sprintf("(%d, %.0f, %d)", a.Saturated, a.GPUHours, a.Actions)
	}
	var b strings.Builder
	if chosen == 0 {
		b.WriteString("No change is suggested. ")
	}
	fmt.Fprintf(&b, "Tried, with saturated minutes, GPU-hours and scaling actions: as it is %s", came(inForce))
	key := ""
	for _, x := range t.list {
		if x.key == key {
			fmt.Fprintf(&b, ", %s %s", x.to, came(x.after))
			continue
		}
		key = x.key
		fmt.Fprintf(&b, "; %s in place of %s: %s %s", key, x.from, x.to, came(x.after))
	}
	b.WriteString(". Not tried: reserves. ")
	return b.String()
}

// each is every change with what it did.
func (t *trials) each(chosen []*trial, days [][]backtest.Account) (all []report.Tried) {
	for i := range t.list {
		x := &t.list[i]
		all = append(all, report.Tried{Key: x.key, From: x.from, To: x.to, Expected: effect(days[x.judged[0]], days[x.judged[1]]), Suggested: slices.Contains(chosen, x)})
	}
	return all
}

// objective is what the configuration says that a minute short of a replica is worth.
func (p *pastPool) objective(decision alerting.Config) backtest.Objective {
	o := backtest.Objective{GPUs: p.pool.GPUsPerReplica}
	if tau, ok := p.pool.CostQuantile(); ok {
		o.Worth, o.Priced = tau/(1-tau), true
		return o
	}
	const least, most = .5, .99 // as of a quantile that follows from cost
	tau := min(max(backtest.Quantile(&p.pool, decision), least), most)
	o.Worth = tau / (1 - tau)
	return o
}

// share is a quantile as configurations have it.
func share(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
