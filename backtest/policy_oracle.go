package backtest

import (
	"math"
	"time"
)

// Future is what a clairvoyant policy knows of a run.
type Future struct {
	Start    time.Time
	Need     []float64 // replicas that each minute from Start on needs, not rounded
	Min, Max int       // replicas of the pool
	Initial  int       // ready at Start
	// Lag is how many whole minutes before it serves the k-th replica must be started, k from 1.
	Lag func(k int) int
}

// oracle follows the cheapest plan that exists for a price of saturated minutes, which is its knob: in replica-minutes a
// minute. It knows the demand and each replica's warm-up, and pays the warm-up as all do. So its curve of cost against
// saturation is the convex lower bound of all policies' curves, but for what is lost in carrying the plan out (see
// schedule).
type oracle struct {
	start   time.Time
	desired []int
}

func newOracle(s Scene, set Setting) Policy {
	f := s.Future
	lag := 0.0
	const typical = 512 // replicas over whose warm-ups a plan takes the mean
	for k := 1; k <= typical; k++ {
		lag += float64(f.Lag(k)) / typical
	}
	return &oracle{start: f.Start, desired: schedule(f, cheapest(f, lag, set[0]))}
}

func (*oracle) Name() string { return OraclePolicy }

func (p *oracle) Desired(o Observation) int {
	at := int(o.At.Sub(p.start) / time.Minute)
	if at < 0 || at >= len(p.desired) {
		return o.Ready + o.Pending
	}
	return p.desired[at]
}

// backlogs are the levels of waiting work, in replica-minutes, that a plan tells apart; work in between counts as the
// next level up, so that a plan never hopes for too much.
var backlogs = [...]float64{0, .1, .2, .4, .7, 1, 1.5, 2, 3, 4.5, 7, 10, 20, 50, math.Inf(1)}

// cheapest is the number of ready replicas of each minute that costs least, when a replica costs 1 a minute, another lag
// minutes before it is ready, and a saturated minute violation: by dynamic programming over ready replicas and backlog,
// which is exact for the fluid pool but for the grid of backlogs and for lag, of which it takes the mean.
// O(minutes · peak · backlogs).
func cheapest(f *Future, lag, violation float64) []int {
	most := 0.0
	for _, n := range f.Need {
		most = max(most, n)
	}
	const spare = 2 // replicas beyond the peak, to work off a backlog
	rows := min(f.Max, int(math.Ceil(most))+spare) - f.Min + 1
	if rows < 1 {
		rows = 1
	}
	const cols = len(backlogs)
	states := rows * cols
	cost, next, moved := make([]float64, states), make([]float64, states), make([]float64, states)
	came := make([]uint16, states)                   // row from which a state was moved to
	from := make([]uint32, states*len(f.Need))       // state before, of each minute's state
	best := func(r, b int) int { return r*cols + b } // index of a state
	for i := range cost {
		cost[i] = math.Inf(1)
	}
	for r := range rows {
		cost[best(r, 0)] = lag * float64(max(0, r+f.Min-f.Initial))
	}
	for t, need := range f.Need {
		for b := range cols { // the best row to come from: below for the price of starts, above for nothing
			up, at := math.Inf(1), 0
			for r := range rows {
				if up += lag; cost[best(r, b)] <= up {
					up, at = cost[best(r, b)], r
				}
				moved[best(r, b)], came[best(r, b)] = up, uint16(at)
			}
			down, at := math.Inf(1), 0
			for r := rows - 1; r >= 0; r-- {
				if cost[best(r, b)] < down {
					down, at = cost[best(r, b)], r
				}
				if down < moved[best(r, b)] {
					moved[best(r, b)], came[best(r, b)] = down, uint16(at)
				}
			}
		}
		for i := range next {
			next[i] = math.Inf(1)
		}
		for r := range rows {
			serving := float64(r + f.Min)
			for b := range cols {
				c := moved[best(r, b)]
				if math.IsInf(c, 1) {
					continue
				}
				c += serving
				after := 0
				if left := need + min(backlogs[b], queuePatience*max(serving, 1)) - serving; left > 0 {
					c += violation
					for left = min(left, queuePatience*max(serving, 1)); backlogs[after] < left; after++ {
					}
				}
				if to := best(r, after); c < next[to] {
					next[to] = c
					from[t*states+to] = uint32(int(came[best(r, b)])*cols + b)
				}
			}
		}
		cost, next = next, cost
	}
	at := 0
	for i := range cost {
		if cost[i] < cost[at] {
			at = i
		}
	}
	plan := make([]int, len(f.Need))
	for t := len(plan) - 1; t >= 0; t-- {
		plan[t] = at/cols + f.Min
		at = int(from[t*states+at])
	}
	return plan
}

// schedule is how many replicas to ask for at the beginning of each minute, so that those of plan are ready: each is
// asked for its own warm-up ahead of the minute that it serves first, in the order of their numbers. One that would have
// to be asked for again before it could be given up stays; and while one is on its way none is given up, for a pool gives
// up first those that warm up.
func schedule(f *Future, plan []int) []int {
	desired := make([]int, len(plan))
	have, started := f.Initial, 0
	warm := 0 // the minute from which all that were started serve
	for t := range plan {
		// How long until level have+i is needed, i from 1, and what of have is needed again before a warm-up is over.
		more, keep := 0, plan[t]
		level := have
		for u := t; u < len(plan) && u-t <= longestLag; u++ {
			for ; level < plan[u]; level++ {
				if i := level - have + 1; u-f.Lag(started+i) <= t {
					more = i
				}
			}
			if plan[u] > keep && u-t <= f.slowest(started, plan[u]-keep) {
				keep = plan[u]
			}
		}
		switch {
		case more > 0:
			for range more {
				started++
				warm = max(warm, t+f.Lag(started))
			}
			have += more
		case keep < have && t >= warm:
			have = keep
		}
		desired[t] = have
	}
	return desired
}

// slowest is the longest lag of the next n replicas after the k-th, and of some more that others may have started by
// then.
func (f *Future) slowest(k, n int) (lag int) {
	const others = 3
	for i := 1; i <= n+others; i++ {
		lag = max(lag, f.Lag(k+i))
	}
	return lag
}

// longestLag bounds how far ahead a replica is asked for, minutes.
const longestLag = 240
