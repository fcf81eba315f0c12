package report

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/value"
)

// unknownNeed is the need of a minute with unknown load or capacity.
const unknownNeed = -1

// provision sums up replica-minutes; see the package comment for each definition.
func (b *builder) provision(pool string) Provision {
	out := Provision{ReplicaHourUSD: value.Unknown, ShortMinuteUSD: value.Unknown, LagMinutes: value.Unknown}
	if basis, ok := b.basis[pool]; ok {
		out.GPUsPerReplica = basis.GPUsPerReplica
		out.ReplicaHourUSD, out.ShortMinuteUSD = knownOrUnknown(basis.ReplicaHourUSD), knownOrUnknown(basis.ShortMinuteUSD)
	}
	var needed, over, under, paid int // replica-minutes
	var lags []float64
	required := slices.Repeat([]int{unknownNeed}, b.end-b.first)
	b.eachMinute(pool, b.first, func(t *tick, minute int) {
		need := b.load(pool, t, minute).needed()
		if need == unknownNeed {
			return
		}
		out.KnownMinutes++
		lags = append(lags, t.lag.Minutes())
		paid += t.ready + t.pending
		needed += need
		over += max(0, t.ready-max(need+t.reserve, t.least))
		under += max(0, need-t.ready)
		required[minute-b.first] = max(need, t.least)
		if t.limit > 0 {
			required[minute-b.first] = min(required[minute-b.first], t.limit)
		}
	})
	slices.Sort(lags)
	out.LagMinutes = quantile(lags, .5)
	amount := func(replicaMinutes int) Amount { return out.amount(float64(replicaMinutes)) }
	if out.KnownMinutes == 0 {
		unknown := out.amount(math.NaN())
		out.Needed, out.Over, out.Under, out.Paid, out.Static, out.Hindsight, out.ShortUSD = unknown, unknown, unknown, unknown, unknown, unknown, value.Unknown
		return out
	}
	least := hindsight(required, int(math.Round(float64(out.LagMinutes))))
	out.Needed, out.Over, out.Under = amount(needed), amount(over), amount(under)
	out.Paid, out.Static, out.Hindsight = amount(paid), amount(slices.Max(required)*out.KnownMinutes), amount(least)
	out.ShortUSD = Number(under) * out.ShortMinuteUSD
	return out
}

// knownOrUnknown is a number whose zero means unknown.
func knownOrUnknown(v float64) Number {
	if v == 0 {
		return value.Unknown
	}
	return Number(v)
}

// hindsight is the least number of paid replica-minutes if needs, by minute, are known beforehand and always met. A
// replica is paid during its warm-up of lag minutes and while it is ready; between two runs of minutes that need it, it
// is kept if that costs less than a start. Each replica k, needed while the need is k or more, can be optimised alone
// (Lu, Chen and Andrew 2013, doi:10.1109/TPDS.2012.241, §3). A replica first needed within a lag of the beginning is
// paid from the beginning; minutes of unknown need are skipped. O(minutes + replicas · changes).
func hindsight(needs []int, lag int) (replicaMinutes int) {
	most := 0
	for _, n := range needs {
		most = max(most, n)
	}
	idle := make([]int, most) // known minutes at the end of each replica's last need, or 0
	minutes := 0              // known so far
	top := 0                  // replicas needed in the newest known minute
	for _, n := range needs {
		if n == unknownNeed {
			continue
		}
		for k := n; k < top; k++ {
			idle[k] = minutes // not needed from here on
		}
		for k := top; k < n; k++ {
			replicaMinutes += min(minutes-idle[k], lag)
		}
		replicaMinutes += n
		top = n
		minutes++
	}
	return replicaMinutes
}

// quantile of ascending values, linear between them; unknown without values.
func quantile(v []float64, p float64) Number {
	if len(v) == 0 {
		return value.Unknown
	}
	return Number(features.QuantileOf(v, p))
}
