package report

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/value"
)

// provision sums up replica-minutes; see the package comment for each definition.
func (p *pool) provision() Provision {
	out := Provision{
		ReplicaHourUSD: stated(p.basis.ReplicaHourUSD), GPUsPerReplica: p.basis.GPUsPerReplica,
		LagMinutes: stated(p.basis.Warmup.P50 / 60),
	}
	var needed, over, under, paid int // replica-minutes
	var required []int                // in known minutes
	for _, x := range p.minutes[p.first:] {
		if math.IsNaN(x.replicas) {
			continue
		}
		need, t := alerting.ReplicasFor(x.replicas, 1), x.tick
		paid += t.ready + t.pending
		needed += need
		over += max(0, t.ready-max(need+t.reserve, p.basis.Least))
		under += max(0, need-t.ready)
		least := max(need, p.basis.Least)
		if t.limit > 0 {
			least = min(least, t.limit)
		}
		required = append(required, least)
	}
	out.KnownMinutes = len(required)
	amount := func(replicaMinutes int) Amount {
		hours := Number(replicaMinutes) / 60
		if out.KnownMinutes == 0 {
			hours = value.Unknown
		}
		return Amount{hours, hours * stated(float64(out.GPUsPerReplica)), hours * out.ReplicaHourUSD}
	}
	out.Needed, out.Over, out.Under, out.Paid = amount(needed), amount(over), amount(under), amount(paid)
	out.Static = amount(slices.Max(append(required, 0)) * out.KnownMinutes)
	out.Hindsight = amount(hindsight(required, int(math.Round(max(p.basis.Warmup.P50, 0)/60))))
	return out
}

// stated is a number of a decision's basis, where 0 means unknown.
func stated(v float64) Number {
	if v > 0 {
		return Number(v)
	}
	return value.Unknown
}

// hindsight is the least number of paid replica-minutes if needs, by known minute, are known beforehand and always met.
// Unknown minutes are left out, as if the known ones followed each other. A replica is paid during its warm-up of lag
// minutes and while it is ready; between two runs of minutes that need it, it is kept if that costs less than a start.
// Each replica k, needed while the need is k or more, can be optimised alone (Lu, Chen and Andrew 2013,
// doi:10.1109/TPDS.2012.241, §3). A replica first needed within a lag of the beginning is paid from the beginning.
// O(minutes + replicas · changes).
func hindsight(needs []int, lag int) (replicaMinutes int) {
	idle := make([]int, slices.Max(append(needs, 0))) // minutes at the end of each replica's last need, or 0
	top := 0                                          // replicas needed in the minute before
	for minutes, n := range needs {
		for k := n; k < top; k++ {
			idle[k] = minutes // not needed from here on
		}
		for k := top; k < n; k++ {
			replicaMinutes += min(minutes-idle[k], lag)
		}
		replicaMinutes += n
		top = n
	}
	return replicaMinutes
}
