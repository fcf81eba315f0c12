package capacity

import (
	"cmp"
	"math"
	"slices"
)

// Type is a kind of replica that a pool can have beside others: another GPU, another number of them.
type Type struct {
	Name              string  `yaml:"name"`
	HourUSD           float64 `yaml:"hour_usd"` // of a replica
	Max               int     `yaml:"max"`      // replicas there may be; 0 means 100
	KVCapacityTokens  float64 `yaml:"kv_capacity_tokens"`
	PrefillTokensPerS float64 `yaml:"prefill_tokens_per_s"`
	DecodeTokensPerS  float64 `yaml:"decode_tokens_per_s"`

	kvTarget, prefillTarget float64
}

const maxOfType = 100

// Share is the share of a pool's demand, by dimension, that one such replica carries, and what binds it. Requests come to
// each type in the same mix, so what is scarcest on a replica bounds its share. Zero when no capacity is known.
func (t *Type) Share(demand map[string]float64) (share float64, binding string) {
	share = math.Inf(1)
	for _, d := range []struct {
		name string
		each float64
	}{{KV, t.KVCapacityTokens * or(t.kvTarget, defaultKVTarget)}, {Prefill, t.PrefillTokensPerS * or(t.prefillTarget, defaultPrefillTarget)}, {Decode, t.DecodeTokensPerS}} {
		if asked := demand[d.name]; asked > 0 && d.each > 0 && d.each/asked < share {
			share, binding = d.each/asked, d.name
		}
	}
	if math.IsInf(share, 1) {
		return 0, ""
	}
	return share, binding
}

// MixResult is a number of replicas of each type and what they cost.
type MixResult struct {
	Replicas []int // in the order of the types
	HourUSD  float64
}

// CheapestMix is the cheapest numbers of replicas that carry demand even when the failure largest of them are lost; ok is
// false when none within the types' bounds does. It is exact: depth first by price for what is carried, cut off where even
// the cheapest way to carry the rest costs more than the best found. Exponential in the number of types in the worst case
// and bounded by mixSteps; pools have two or three.
func CheapestMix(types []Type, demand map[string]float64, failure int) (best MixResult, ok bool) {
	s := search{best: math.Inf(1), failure: failure}
	for i := range types {
		share, _ := types[i].Share(demand)
		most := types[i].Max
		if most == 0 {
			most = maxOfType
		}
		if share > 0 && most > 0 {
			s.items = append(s.items, item{at: i, share: share, price: types[i].HourUSD, most: most})
		}
	}
	slices.SortStableFunc(s.items, func(a, b item) int { return cmp.Compare(a.price/a.share, b.price/b.share) })
	s.counts = make([]int, len(s.items))
	s.from(0, 0)
	if math.IsInf(s.best, 1) {
		return MixResult{}, false
	}
	best = MixResult{Replicas: make([]int, len(types)), HourUSD: s.best}
	for i, n := range s.found {
		best.Replicas[s.items[i].at] = n
	}
	return best, true
}

type item struct {
	at, most     int
	share, price float64
}

type search struct {
	items   []item
	failure int
	counts  []int
	found   []int
	best    float64
	steps   int
}

// mixSteps bounds the search; with three types of a hundred it needs some thousands.
const mixSteps = 5_000_000

// from tries the numbers of the types from i on, at a price so far.
func (s *search) from(i int, price float64) {
	if s.steps++; s.steps > mixSteps {
		return
	}
	short := 1 - s.carried()
	if short <= 1e-9 {
		if price < s.best-1e-9 {
			s.best, s.found = price, slices.Clone(s.counts)
		}
		return
	}
	if i == len(s.items) || price+short*s.items[i].price/s.items[i].share >= s.best-1e-9 {
		return // no later type carries as much for its price
	}
	it := &s.items[i]
	most := min(it.most, int(math.Ceil(short/it.share))+s.failure)
	for n := most; n >= 0; n-- {
		s.counts[i] = n
		s.from(i+1, price+float64(n)*it.price)
	}
	s.counts[i] = 0
}

// carried is the share of demand that is carried when the largest replicas are lost.
func (s *search) carried() float64 {
	sum := 0.0
	order := make([]int, len(s.items))
	for i, it := range s.items {
		sum += float64(s.counts[i]) * it.share
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.items[b].share, s.items[a].share) })
	lost := s.failure
	for _, i := range order {
		n := min(lost, s.counts[i])
		sum -= float64(n) * s.items[i].share
		lost -= n
	}
	return sum
}
