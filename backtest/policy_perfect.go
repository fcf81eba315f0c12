package backtest

import (
	"slices"
	"time"
)

// perfect knows the demand to come and has the largest need of the next minutes ready; how long a replica will take it
// does not know. It is what the best of forecasts would be worth to a policy that looks a fixed time ahead.
type perfect struct {
	future *Future
	ahead  int // minutes
}

func newPerfect(s Scene, set Setting) Policy { return &perfect{future: s.Future, ahead: int(set[0])} }

func (*perfect) Name() string { return "perfect_forecast" }

func (p *perfect) Desired(o Observation) int {
	need := p.future.Need
	from := min(int(o.At.Sub(p.future.Start)/time.Minute), len(need))
	next := need[from:min(from+p.ahead+1, len(need))]
	if len(next) == 0 {
		return o.Ready + o.Pending
	}
	return replicas(slices.Max(next), 1)
}
