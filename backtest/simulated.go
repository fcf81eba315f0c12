package backtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// simulated is a pool that a policy scales, minute by minute. All pools of a run serve the same demand with the same
// warm-up draws.
type simulated interface {
	// Submit hands over a request of the minute that Step serves next, in order of time.
	Submit(r *ingest.Request)
	// Step serves one minute, whose demand is load.
	Step(load Load)
	// Observe is what an autoscaler sees at the end of the minute.
	Observe() Observation
	// SetDesired asks for n replicas, within the pool's bounds.
	SetDesired(n int)
	// Reports appends what the replicas report of the minute.
	Reports(to []ingest.Replica) []ingest.Replica
	// Warmed are the lags of the replicas that became ready since the last call, as their reports show them.
	Warmed() []time.Duration
	// Account is how the pool did so far.
	Account() Account

	state() features.PoolState // as features.Aggregator would sum up the reports
}

// Simulation says how much of a pool is simulated.
type Simulation string

// The simulations.
const (
	Fluid    Simulation = "fluid"    // work flows, minute by minute: also for traces of sums; see FluidPool
	Requests Simulation = "requests" // every request on its replica; see Cluster
)

// check says what is wrong.
func (s Simulation) check() error {
	all := []string{string(Fluid), string(Requests)}
	for _, name := range all {
		if string(s) == name {
			return nil
		}
	}
	return fmt.Errorf("simulate %q is unknown: use %s", s, strings.Join(all, " or "))
}
