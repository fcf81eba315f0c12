package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/internal/value"
)

// newOracle follows the cheapest plan, if a saturated minute costs as many replica-minutes as its first knob says. It
// knows the demand and each replica's warm-up, and also waits for the warm-up. So its curve of cost against saturation
// is the convex lower bound of all policies' curves, except for losses in execution (see orderTimes).
func newOracle(s Scene, set Setting) Policy {
	lag := 0.0
	const typical = 512 // replicas in the mean warm-up of a plan
	for k := 1; k <= typical; k++ {
		lag += float64(s.Lag(k)) / typical
	}
	desired := orderTimes(&s, cheapestPlan(&s, lag, set[0]), int(set[1]))
	return func(o Observation) int {
		at := int(o.At.Sub(s.Start) / time.Minute)
		if at < 0 || at >= len(desired) {
			return o.Ready + o.Pending
		}
		return desired[at]
	}
}

// backlogs is the grid of waiting work in a plan, in replica-minutes. Work is rounded up, so no plan is too optimistic.
var backlogs = [...]float64{0, .1, .2, .4, .7, 1, 1.5, 2, 3, 4.5, 7, 10, 20, 50, math.Inf(1)}

// maxStates bounds a plan's memory: states of all minutes planned at once, 4 bytes each. A longer trace is planned in
// parts, each with some minutes of the next as look-ahead.
const maxStates = 8 << 20

// spareReplicas is the number of replicas above the peak that a plan may use for a backlog.
const spareReplicas = 2

// cheapestPlan returns the cheapest number of ready replicas per minute. A replica costs 1 per minute, also for lag
// minutes before it is ready, and a saturated minute costs violation. It is dynamic programming over ready replicas and
// backlog. It is exact for the fluid pool, except for the grid of backlogs, the mean lag, and retries. O(minutes · peak
// · backlogs).
func cheapestPlan(s *Scene, lag, violation float64) []int {
	peak := value.Highest(s.Need)
	p := planner{min: s.Min, lag: lag, violation: violation}
	p.rows = max(min(s.Max, int(math.Ceil(peak))+spareReplicas)-s.Min+1, 1)
	p.begin(s.Initial)
	piece := max(maxStates/len(p.cost), 2*longestLag)
	var plan []int
	for len(plan) < len(s.Need) {
		ahead := s.Need[len(plan):]
		if len(ahead) <= piece {
			return append(plan, p.plan(ahead, len(ahead))...)
		}
		plan = append(plan, p.plan(ahead[:piece], piece-longestLag)...)
	}
	return plan
}

// planner is the dynamic program. A state is a number of ready replicas and a backlog level.
type planner struct {
	min, rows      int // replicas are min…min+rows−1
	lag, violation float64

	cost, next, moved []float64 // least cost of each state: now, in the next minute, after a change of replicas
	moveFrom          []uint16  // row before the move to each state
	from              []uint32  // previous state, for each minute's states
}

func (*planner) state(row, backlog int) int { return row*len(backlogs) + backlog }

// begin makes the initial replicas free. Each further one costs its start.
func (p *planner) begin(initial int) {
	states := p.rows * len(backlogs)
	p.cost = slices.Repeat([]float64{math.Inf(1)}, states)
	p.next, p.moved, p.moveFrom = make([]float64, states), make([]float64, states), make([]uint16, states)
	for row := range p.rows {
		p.cost[p.state(row, 0)] = p.lag * float64(max(0, row+p.min-initial))
	}
}

// plan returns the first minutes of the cheapest plan for a need. The next plan continues from there.
func (p *planner) plan(need []float64, keep int) []int {
	states := len(p.cost)
	if size := states * len(need); cap(p.from) < size {
		p.from = make([]uint32, size)
	}
	for t, n := range need {
		p.move()
		p.serve(n, p.from[t*states:(t+1)*states])
	}
	at := slices.Index(p.cost, slices.Min(p.cost))
	plan := make([]int, keep)
	for t := len(need) - 1; t >= 0; t-- {
		if t == keep-1 {
			for i := range p.cost {
				p.cost[i] = math.Inf(1)
			}
			p.cost[at] = 0
		}
		if t < keep {
			plan[t] = at/len(backlogs) + p.min
		}
		at = int(p.from[t*states+at])
	}
	return plan
}

// move finds the cheapest predecessor of each state at the start of a minute. Only additional replicas cost something.
func (p *planner) move() {
	for b := range backlogs {
		up, at := math.Inf(1), 0
		for row := range p.rows {
			i := p.state(row, b)
			up += p.lag
			if p.cost[i] <= up {
				up, at = p.cost[i], row
			}
			p.moved[i], p.moveFrom[i] = up, uint16(at)
		}
		down, at := math.Inf(1), 0
		for row := p.rows - 1; row >= 0; row-- {
			i := p.state(row, b)
			if p.cost[i] < down {
				down, at = p.cost[i], row
			}
			if down < p.moved[i] {
				p.moved[i], p.moveFrom[i] = down, uint16(at)
			}
		}
	}
}

// serve applies a minute's need to each state.
func (p *planner) serve(need float64, from []uint32) {
	for i := range p.next {
		p.next[i] = math.Inf(1)
	}
	for row := range p.rows {
		serving := float64(row + p.min)
		limit := maxQueueMinutes * max(serving, 1) // backlog
		for b := range backlogs {
			i := p.state(row, b)
			if math.IsInf(p.moved[i], 1) {
				continue
			}
			cost, after := p.moved[i]+serving, 0
			if left := need + min(backlogs[b], limit) - serving; left > 0 {
				cost += p.violation
				for backlogs[after] < min(left, limit) {
					after++
				}
			}
			if to := p.state(row, after); cost < p.next[to] {
				p.next[to] = cost
				from[to] = uint32(p.state(int(p.moveFrom[i]), b))
			}
		}
	}
	p.cost, p.next = p.next, p.cost
}

// orderTimes returns the replicas to ask for at the start of each minute, so that those of plan are ready. Each replica
// is ordered its own warm-up before its first minute, in order of numbers. A replica stays if its replacement would
// have to be ordered before the removal, even if as many as others are ordered first. No replica is removed while one
// warms up, because a pool removes the warming ones first.
func orderTimes(s *Scene, plan []int, others int) []int {
	desired := make([]int, len(plan))
	have, started := s.Initial, 0
	warm := 0 // minute in which all started replicas are ready
	for t := range plan {
		// Minutes until level have+i is needed, i from 1, and the part of have that is needed again within a warm-up.
		more, keep := 0, plan[t]
		level := have
		for u := t; u < len(plan) && u-t <= longestLag; u++ {
			for ; level < plan[u]; level++ {
				if i := level - have + 1; u-s.Lag(started+i) <= t {
					more = i
				}
			}
			if plan[u] > keep && u-t <= s.slowest(started, plan[u]-keep+others) {
				keep = plan[u]
			}
		}
		switch {
		case more > 0:
			for range more {
				started++
				warm = max(warm, t+s.Lag(started))
			}
			have += more
		case keep < have && t >= warm:
			have = keep
		}
		desired[t] = have
	}
	return desired
}

// slowest returns the longest lag of the next n replicas after the k-th.
func (s *Scene) slowest(k, n int) (lag int) {
	for i := 1; i <= n; i++ {
		lag = max(lag, s.Lag(k+i))
	}
	return lag
}

// longestLag bounds how far ahead a replica is ordered, minutes.
const longestLag = 240
