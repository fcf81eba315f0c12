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
	return &oracle{start: f.Start, desired: schedule(f, cheapest(f, lag, set[0]), int(set[1]))}
}

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

// maxStates bounds the memory of a plan: states of all minutes that are planned at once, 4 bytes each. A longer trace is
// planned piece by piece, each with as much of the next as a plan looks ahead.
const maxStates = 8 << 20

// spare is how many replicas beyond the peak a plan may use, to work off a backlog.
const spare = 2

// cheapest is the number of ready replicas of each minute that costs least, when a replica costs 1 a minute, another lag
// minutes before it is ready, and a saturated minute violation: by dynamic programming over ready replicas and backlog,
// which is exact for the fluid pool but for the grid of backlogs, for lag, of which it takes the mean, and for what was turned
// away and comes again.
// O(minutes · peak · backlogs).
func cheapest(f *Future, lag, violation float64) []int {
	most := 0.0
	for _, n := range f.Need {
		most = max(most, n)
	}
	p := planner{min: f.Min, lag: lag, violation: violation}
	p.rows = max(min(f.Max, int(math.Ceil(most))+spare)-f.Min+1, 1)
	p.begin(f.Initial)
	piece := max(maxStates/len(p.cost), 2*longestLag)
	var plan []int
	for len(plan) < len(f.Need) {
		ahead := f.Need[len(plan):]
		if len(ahead) <= piece {
			return append(plan, p.plan(ahead)...)
		}
		p.length = piece - longestLag
		plan = append(plan, p.plan(ahead[:piece])...)
	}
	return plan
}

// planner is the dynamic programme. A state is a number of ready replicas and a level of backlogs.
type planner struct {
	min, rows      int // replicas are min…min+rows−1
	lag, violation float64
	length         int // minutes of a plan that are kept; 0 is all

	cost, next, moved []float64 // least cost of each state; of the next minute's; after replicas changed
	came              []uint16  // row from which a state was moved to
	from              []uint32  // state before, of each minute's states
}

// state is the index of a row and a level of backlog.
func (*planner) state(row, backlog int) int { return row*len(backlogs) + backlog }

// begin makes the pool's initial replicas the only free ones.
func (p *planner) begin(initial int) {
	states := p.rows * len(backlogs)
	p.cost, p.next, p.moved, p.came = make([]float64, states), make([]float64, states), make([]float64, states), make([]uint16, states)
	for i := range p.cost {
		p.cost[i] = math.Inf(1)
	}
	for row := range p.rows {
		p.cost[p.state(row, 0)] = p.lag * float64(max(0, row+p.min-initial))
	}
}

// plan is the cheapest plan for a need, of which it keeps the first length minutes and goes on from there.
func (p *planner) plan(need []float64) []int {
	states := len(p.cost)
	if size := states * len(need); cap(p.from) < size {
		p.from = make([]uint32, size)
	}
	for t, n := range need {
		p.move()
		p.serve(n, p.from[t*states:(t+1)*states])
	}
	at := 0
	for i := range p.cost {
		if p.cost[i] < p.cost[at] {
			at = i
		}
	}
	keep := len(need)
	if p.length > 0 {
		keep = p.length
	}
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
	p.length = 0
	return plan
}

// move finds for each state the cheapest to come from at the beginning of a minute: fewer replicas for the price of
// starts, more for nothing.
func (p *planner) move() {
	for b := range backlogs {
		up, at := math.Inf(1), 0
		for row := range p.rows {
			i := p.state(row, b)
			if up += p.lag; p.cost[i] <= up {
				up, at = p.cost[i], row
			}
			p.moved[i], p.came[i] = up, uint16(at)
		}
		down, at := math.Inf(1), 0
		for row := p.rows - 1; row >= 0; row-- {
			i := p.state(row, b)
			if p.cost[i] < down {
				down, at = p.cost[i], row
			}
			if down < p.moved[i] {
				p.moved[i], p.came[i] = down, uint16(at)
			}
		}
	}
}

// serve has each state serve a minute's need.
func (p *planner) serve(need float64, from []uint32) {
	for i := range p.next {
		p.next[i] = math.Inf(1)
	}
	for row := range p.rows {
		serving := float64(row + p.min)
		most := queuePatience * max(serving, 1) // backlog
		for b := range backlogs {
			i := p.state(row, b)
			if math.IsInf(p.moved[i], 1) {
				continue
			}
			cost, after := p.moved[i]+serving, 0
			if left := need + min(backlogs[b], most) - serving; left > 0 {
				cost += p.violation
				for left = min(left, most); backlogs[after] < left; after++ {
				}
			}
			if to := p.state(row, after); cost < p.next[to] {
				p.next[to] = cost
				from[to] = uint32(p.state(int(p.came[i]), b))
			}
		}
	}
	p.cost, p.next = p.next, p.cost
}

// schedule is how many replicas to ask for at the beginning of each minute, so that those of plan are ready: each is
// asked for its own warm-up ahead of the minute that it serves first, in the order of their numbers. One that would have
// to be asked for again before it could be given up stays, also when as many others as given are asked for first; and while one is on its way none is given up, for a pool gives
// up first those that warm up.
func schedule(f *Future, plan []int, others int) []int {
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
			if plan[u] > keep && u-t <= f.slowest(started, plan[u]-keep+others) {
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

// slowest is the longest lag of the next n replicas after the k-th.
func (f *Future) slowest(k, n int) (lag int) {
	for i := 1; i <= n; i++ {
		lag = max(lag, f.Lag(k+i))
	}
	return lag
}

// longestLag bounds how far ahead a replica is asked for, minutes.
const longestLag = 240
