package storage

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/forewarm/forewarm/features"
)

// An account divides the tokens of a class by a label.
type account struct {
	series, label string
	kept          int     // names of a class with their own series
	minShare      float64 // minShare share of the class's account for a series
	of            func(w *features.Window) *features.Ranking
}

var accounts = [...]account{
	{"forewarm_tenant_tokens_per_second", "tenant", 2, 0.2, func(w *features.Window) *features.Ranking { return w.Tenants }},
	{"forewarm_feature_tokens_per_second", "feature", 4, 0.05, func(w *features.Window) *features.Ranking { return w.Features }},
	{"forewarm_model_tokens_per_second", "model", 4, 0.05, func(w *features.Window) *features.Ranking { return w.Models }},
	{"forewarm_tier_tokens_per_second", "tier", 4, 0.05, func(w *features.Window) *features.Ranking { return w.Tiers }},
}

// accountFade is the decay of an account per minute.
var accountFade = math.Exp2(-float64(features.Minute) / float64(features.RankingHalfLife))

// heavy is a name with its own series. A silent name keeps its series until another is clearly heavier than its recent
// peak, so that series have few gaps.
type heavy struct {
	name string
	peak float64 // tokens of its account, decayed by tokensHalfLife
}

// names are the names of one account of a class, at most account.kept.
type names struct {
	list []heavy
	at   int64 // tick of the last update, Unix ms
}

// rank gives series to the heaviest names of a ranking.
func (s *names) rank(a *account, r *features.Ranking, tick int64) {
	fade := math.Exp2(-float64(tick-s.at) / float64(tokensHalfLife.Milliseconds()))
	for i := range s.list {
		t := &s.list[i]
		t.peak = max(t.peak*fade, accountOf(r, t.name))
	}
	s.at = tick
	for i := range r.Top {
		name, share, _ := r.Name(i)
		if share < a.minShare || slices.ContainsFunc(s.list, func(t heavy) bool { return t.name == name }) {
			continue
		}
		x := heavy{name, accountOf(r, name)}
		if len(s.list) < a.kept {
			s.list = append(s.list, x)
			continue
		}
		lightest := slices.MinFunc(s.list, func(a, b heavy) int { return cmp.Compare(a.peak, b.peak) })
		if x.peak > clearlyHeavier*lightest.peak {
			s.list[slices.Index(s.list, lightest)] = x
		}
	}
}

// accountOf returns the middle of the possible range of a name's account, 0 for a name that is not listed.
func accountOf(r *features.Ranking, name string) float64 {
	for i := range r.Top {
		if c := &r.Top[i]; c.Name == name {
			return c.Weight - c.Error/2
		}
	}
	return 0
}

// accounts stores the running means of a class's accounts: the names with series, and the sum of the others without a
// name. The rankings are of the tick, not of the window's minute.
func (tx *transaction) accounts(w *features.Window) {
	s := tx.retained.classes[w.Key]
	for kind := range accounts {
		a := &accounts[kind]
		r := a.of(w)
		if s == nil || r == nil {
			continue
		}
		s.names[kind].rank(a, r, tx.tick)
		rest := r.Total
		put := func(name string, tokens float64) {
			key := demandKey(a.series, w.Key)
			key.more = [2]string{a.label, name}
			tx.put(key, tx.tick, tokens*(1-accountFade)/features.Minute.Seconds())
		}
		for _, t := range s.names[kind].list {
			tokens := accountOf(r, t.name)
			rest -= tokens
			put(t.name, tokens)
		}
		put("", max(rest, 0))
	}
}

// Tokens calls fn, ordered by labels, with the tokens per second of each tenant (or feature, or model: by) with a
// series. The name "" has the class's others. values[i] is the minute that starts at from + i minutes, NaN if unknown.
// The values are differences of running means, so they need the previous minute too. from is truncated to the minute.
// The slice is valid during the call.
func (h History) Tokens(ctx context.Context, by string, from, to time.Time, fn func(key features.Key, name string, values []float64) error) error {
	from = from.Truncate(features.Minute)
	n := int(to.Sub(from) / features.Minute)
	if n <= 0 {
		return nil
	}
	mint, minute := from.UnixMilli(), features.Minute.Milliseconds()
	byMinute := make([]float64, n)
	return h.each(ctx, mint, mint+int64(n)*minute, func(l labels.Labels, times []int64, means []float64) error {
		for i := range byMinute {
			byMinute[i] = math.NaN()
		}
		before, mean := int64(math.MinInt64), 0.0
		for i, t := range times {
			if m := (t-mint)/minute - 1; t-before == minute && m >= 0 {
				byMinute[m] = max((means[i]-accountFade*mean)/(1-accountFade), 0)
			}
			before, mean = t, means[i]
		}
		return fn(keyOf(l), l.Get(by), byMinute)
	}, named("forewarm_"+by+"_tokens_per_second"))
}
