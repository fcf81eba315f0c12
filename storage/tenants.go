package storage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/forewarm/forewarm/features"
)

const (
	tenantSeries = "forewarm_tenant_tokens_per_second"
	// tenantsKept is how many tenants of a class have a series of their own.
	tenantsKept = 2
	// leastTenant is the share of a class's account from which a tenant can have one.
	leastTenant = 0.2
)

// accountFade is the factor by which the account of a class's tenants fades each minute.
var accountFade = math.Exp2(-float64(features.Minute) / float64(features.RankingHalfLife))

// seat is a tenant that has a series of its own: one that fell silent keeps it until another is clearly heavier than it
// lately was, so that the series of what comes and goes has no holes.
type seat struct {
	name string
	peak float64 // tokens of its account, fading by tokensHalfLife
}

// seatTenants gives the seats of a class to those of a ranking that weigh enough.
func (s *standing) seatTenants(r *features.Ranking, tick int64) {
	for i := range s.tenants {
		t := &s.tenants[i]
		t.peak = max(t.peak*math.Exp2(-float64(tick-s.seated)/float64(tokensHalfLife.Milliseconds())), accountOf(r, t.name))
	}
	s.seated = tick
	for i := range r.Top {
		name, share, _ := r.Name(i)
		if share < leastTenant {
			continue
		}
		x := seat{name, accountOf(r, name)}
		switch lightest := s.lightestSeat(); {
		case slices.ContainsFunc(s.tenants, func(t seat) bool { return t.name == name }):
		case len(s.tenants) < tenantsKept:
			s.tenants = append(s.tenants, x)
		case x.peak > clearlyHeavier*s.tenants[lightest].peak:
			s.tenants[lightest] = x
		}
	}
}

// lightestSeat is the position of the seat that goes first.
func (s *standing) lightestSeat() (at int) {
	for i := range s.tenants {
		if s.tenants[i].peak < s.tenants[at].peak {
			at = i
		}
	}
	return at
}

// accountOf is the middle of what a name may weigh; one that is not listed weighs next to nothing.
func accountOf(r *features.Ranking, name string) float64 {
	for i := range r.Top {
		if c := &r.Top[i]; c.Name == name {
			return c.Weight - c.Error/2
		}
	}
	return 0
}

// tenants stores what the accounts of a class's tenants stand at, as running means: those with seats by name, and all the
// others together without one. The ranking is that of the tick, not of the window's minute.
func (tx *transaction) tenants(w *features.Window) {
	s := tx.chosen.standings[w.Key]
	if s == nil || w.Tenants == nil {
		return
	}
	s.seatTenants(w.Tenants, tx.tick)
	rest := w.Tenants.Total
	put := func(name string, tokens float64) {
		key := groupKey{kind: tenantGroup, Key: w.Key, name: name}
		tx.put(key, tx.lookup(key), 0, tx.tick, tokens*(1-accountFade)/features.Minute.Seconds())
	}
	for _, t := range s.tenants {
		tokens := accountOf(w.Tenants, t.name)
		rest -= tokens
		put(t.name, tokens)
	}
	put("", max(rest, 0))
}

// Tenants calls fn, in the order of labels, with the tokens a second of each tenant that has a series, and with those of
// a class's other tenants under the name "": values[i] is what was reported in the minute that starts at from + i minutes,
// NaN where it is not known. They follow from running means, so that a minute counts where the one before is known, too.
// from is cut to the minute. The slice is valid during the call.
func (h History) Tenants(ctx context.Context, from, to time.Time, fn func(key features.Key, tenant string, values []float64) error) error {
	from = from.Truncate(features.Minute)
	n := int(to.Sub(from) / features.Minute)
	if n <= 0 {
		return nil
	}
	mint, minute := from.UnixMilli(), features.Minute.Milliseconds()
	q, err := h.Store.Querier(mint, mint+int64(n)*minute)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer q.Close()
	values := make([]float64, n)
	set := q.Select(ctx, true, nil, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, tenantSeries))
	var it chunkenc.Iterator
	for set.Next() {
		at := set.At()
		for i := range values {
			values[i] = math.NaN()
		}
		it = at.Iterator(it)
		before, mean := int64(math.MinInt64), 0.0
		for it.Next() == chunkenc.ValFloat {
			t, v := it.At()
			if i := int((t-mint)/minute) - 1; t-before == minute && i >= 0 && i < n {
				values[i] = max((v-accountFade*mean)/(1-accountFade), 0)
			}
			before, mean = t, v
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("history of %s: %w", at.Labels(), err)
		}
		l := at.Labels()
		if err := fn(features.Key{Pool: l.Get("pool"), Class: l.Get("class")}, l.Get("tenant"), values); err != nil {
			return err
		}
	}
	return set.Err()
}
