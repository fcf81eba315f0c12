package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// NewInput has the default launch: three times the requests, within 20 minutes.
func NewInput() Input {
	in := Input{Launch: Same, Ramp: 20 * time.Minute}
	in.Launch.Rate = 3
	return in
}

// launchNumbers are the numbers of a launch by their names in the query of /api/v1/plan.
var launchNumbers = map[string]struct {
	least, most float64
	set         func(in *Input, v float64)
}{
	"launch":           {1e-3, 1000, func(in *Input, v float64) { in.Launch.Rate = v }},
	"prompt":           {1e-3, 1000, func(in *Input, v float64) { in.Launch.Prompt = v }},
	"output":           {1e-3, 1000, func(in *Input, v float64) { in.Launch.Output = v }},
	"cache_hit":        {0, 1000, func(in *Input, v float64) { in.Launch.CacheHit = v }},
	"retry":            {0, 1000, func(in *Input, v float64) { in.Launch.Retry = v }},
	"replicas":         {1, 100_000, func(in *Input, v float64) { in.Pool.Replicas = int(v) }},
	"prefill_replicas": {1, 100_000, func(in *Input, v float64) { in.Pool.Prefill = int(v) }},
}

// Set reads one value of a launch, by its name in the query of /api/v1/plan. Other names are ignored. The error says
// what the value must be.
func (in *Input) Set(name, text string) error {
	text = strings.TrimSpace(text)
	if name == "ramp" {
		ramp, err := time.ParseDuration(text)
		if err != nil || ramp < 0 || ramp > 720*time.Hour {
			return errors.New("it must be a duration of 0s to 720h")
		}
		in.Ramp = ramp
		return nil
	}
	x, ok := launchNumbers[name]
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= x.least && v <= x.most) {
		return fmt.Errorf("it must be a number from %v to %v", x.least, x.most)
	}
	if strings.HasSuffix(name, "replicas") && v != math.Trunc(v) {
		return errors.New("it must be a whole number")
	}
	x.set(in, v)
	return nil
}

// UsePool sets the pool, as its newest decision saw it; nil if there is none. Replicas that are stated stay.
func (in *Input) UsePool(p *capacity.Pool, waitingPerReplica float64, d *alerting.Decision) error {
	replicas, prefill := in.Pool.Replicas, in.Pool.Prefill // stated
	if prefill > 0 && !p.Disaggregated {
		return fmt.Errorf("pool %q has no prefill replicas: set its disaggregated.prefill_replicas.max, or state none", p.Name)
	}
	in.Pool = Pool{Pool: *p, WaitingPerReplica: waitingPerReplica}
	if d == nil || d.SupplyAssumed && d.Ready == 0 {
		replicas = cmp.Or(replicas, p.Replicas.Initial)
	}
	if d != nil {
		in.Pool.Lead, replicas = d.Lead, cmp.Or(replicas, d.Ready)
		if d.ByRole != nil {
			prefill = cmp.Or(prefill, d.ByRole.PrefillReady)
		}
		for _, r := range d.Resources {
			if r.Dimension == capacity.KV && p.KVTarget > 0 {
				in.Pool.Reported = r.PerReplica / p.KVTarget
			}
		}
	}
	in.Pool.Replicas, in.Pool.Prefill = replicas, cmp.Or(prefill, p.BoundsOf(capacity.PrefillRole).Initial)
	return nil
}
