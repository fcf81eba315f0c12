package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// beliefs follow what a pool's decisions take for granted, and when evidence of it came.
type beliefs struct {
	newest alerting.Basis
	seen   map[string]time.Time
}

// believe takes the basis of the next decision.
func (b *builder) believe(d *alerting.Decision) {
	if d.Basis == nil {
		return
	}
	x := b.beliefs[d.Pool]
	first := x == nil
	if first {
		x = &beliefs{seen: map[string]time.Time{}}
		b.beliefs[d.Pool] = x
	}
	for _, r := range d.Basis.Rates {
		// An estimate moves when evidence comes; what engines report need not.
		switch was := x.rate(r.Dimension); {
		case r.Learned == 0:
		case r.Dimension == features.DimKV && !d.SupplyAssumed, !first && r.Learned != was.Learned:
			x.seen[r.Dimension] = d.Tick
		}
	}
	now, was := d.Basis.Warmup, x.newest.Warmup
	if !first && (now.Seen > was.Seen || now.Seen == was.Seen && now.Seen > 0 && now.P50 != was.P50) {
		x.seen[warmup] = d.Tick
	}
	x.newest = *d.Basis
	x.newest.Rates = slices.Clone(d.Basis.Rates)
	x.newest.Faults = nil
}

// warmup is the lag among the names of what is seen.
const warmup = "warmup"

func (x *beliefs) rate(dimension string) alerting.RateBasis {
	for _, r := range x.newest.Rates {
		if r.Dimension == dimension {
			return r
		}
	}
	return alerting.RateBasis{}
}

// assumptions holds what is believed against what is known of it.
func (b *builder) assumptions(pool string) []Assumption {
	x := b.beliefs[pool]
	if x == nil {
		return []Assumption{}
	}
	var out []Assumption
	for _, r := range x.newest.Rates {
		row := Assumption{Name: r.Dimension + "_rate", Unit: "tokens/s", Stated: known(r.Stated), Learned: known(r.Learned), Used: known(r.Used)}
		if r.Dimension == features.DimKV {
			row.Name, row.Unit = "kv_per_replica", "tokens"
		} else if r.Learned > 0 {
			row.Note = fmt.Sprintf("learned between %s and %s", quantity(Number(r.Low), ""), quantity(Number(r.High), row.Unit))
		}
		for _, note := range x.newest.Notes {
			if of, why, _ := strings.Cut(note, ": "); of == r.Dimension {
				row.Note = strings.TrimPrefix(row.Note+"; "+why, "; ")
			}
		}
		out = append(out, b.dated(row, x.seen[r.Dimension]))
	}
	for _, lag := range []struct {
		name           string
		stated, learnt float64
	}{{"warmup_p50", x.newest.Warmup.StatedP50, x.newest.Warmup.P50}, {"warmup_p90", x.newest.Warmup.StatedP90, x.newest.Warmup.P90}} {
		row := Assumption{Name: lag.name, Unit: "min", Stated: known(lag.stated / 60), Used: known(lag.learnt / 60), Learned: Number(math.NaN())}
		if n := x.newest.Warmup.Seen; n > 0 {
			row.Learned, row.Note = row.Used, fmt.Sprintf("from %s, and from what is stated", count(n, "start"))
		}
		out = append(out, b.dated(row, x.seen[warmup]))
	}
	if price := known(x.newest.ReplicaHourUSD); !math.IsNaN(float64(price)) {
		row := Assumption{Name: "replica_hour", Unit: "USD", Stated: price, Used: price, Learned: Number(math.NaN())}
		day, err := time.Parse(time.DateOnly, x.newest.PricesDate)
		if err != nil {
			row.Note = "bears no date: set prices.date"
		}
		out = append(out, b.dated(row, day))
	}
	return out
}

// dated says how far an assumption is off, and how old it is.
func (b *builder) dated(a Assumption, seen time.Time) Assumption {
	held := a.Stated
	if math.IsNaN(float64(held)) {
		held = a.Used
	}
	a.Off, a.AgeDays = held/a.Learned-1, Number(math.NaN())
	if seen.IsZero() {
		if a.Note == "" {
			a.Note = "nothing in the period told"
		}
		return a
	}
	seen = seen.UTC()
	a.Confirmed, a.AgeDays = &seen, Number(b.to.Sub(seen).Hours()/24)
	return a
}

// drift holds the halves of the period apart.
func drift(dimension string, a *forecaster.Accumulator) Drift {
	halves := a.Halves()
	half := func(h *forecaster.Half) Half {
		return Half{Outcomes: h.N, WAPE: Number(h.WAPE()), Bias: Number(h.Bias()),
			Q50: Number(h.Share(forecaster.L50)), Q90: Number(h.Share(forecaster.L90)), Q99: Number(h.Share(forecaster.L99))}
	}
	return Drift{Dimension: dimension, Horizon: a.Horizon, First: half(&halves[0]), Second: half(&halves[1])}
}

// drifts are those of the headline horizon, by dimension.
func (b *builder) drifts(pool string) []Drift {
	best := ""
	for _, d := range b.drift[pool] {
		if far(d.Horizon) < far(best) {
			best = d.Horizon
		}
	}
	out := []Drift{}
	for _, d := range b.drift[pool] {
		if d.Horizon == best && d.First.Outcomes+d.Second.Outcomes > 0 {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(x, y Drift) int { return cmp.Compare(rank(x.Dimension), rank(y.Dimension)) })
	return out
}
