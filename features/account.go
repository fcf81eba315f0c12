package features

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

const (
	// maxRanked is the largest number of names in a Ranking.
	maxRanked = 10
	// RankingHalfLife is the time in which half of an account fades.
	RankingHalfLife = 30 * time.Minute
)

// fade is the decay factor of accounts per minute.
var fade = math.Exp2(-float64(Minute) / float64(RankingHalfLife))

// Ranking lists the largest consumers of a class's tokens, largest first. It counts prompt and output tokens, which
// fade with RankingHalfLife.
type Ranking struct {
	Top   []sketch.Count `cbor:"1,keyasint,omitempty"` // at most 10
	Total float64        `cbor:"2,keyasint,omitempty"` // tokens in the account, nameless ones included
	// Floor is an upper bound of the Error of every listed name. With fewer than ten names, it is one of the weight of
	// every other name too.
	Floor float64 `cbor:"3,keyasint,omitempty"`
}

// First is the heaviest name. Its true share of the account is within share ± margin, fractions of one. Without any
// name, r is nil, the name is empty and the numbers are NaN.
func (r *Ranking) First() (name string, share, margin float64) {
	if r == nil || len(r.Top) == 0 || !(r.Total > 0) {
		return "", math.NaN(), math.NaN()
	}
	return r.Name(0)
}

// Name is the i-th of Top, with its share as First has it.
func (r *Ranking) Name(i int) (name string, share, margin float64) {
	c := &r.Top[i]
	margin = c.Error / 2 / r.Total
	return c.Name, min(c.Weight/r.Total-margin, 1), margin
}

// The kinds of account of a class.
const (
	byTenant = iota
	byFeature
	accountKinds
)

// accounts are the tokens of a class by name, each empty before the first name.
type accounts [accountKinds]sketch.TopK

// add adds the tokens of a record; "" is an unknown name.
func (all *accounts) add(names *[accountKinds]string, tokens float64) {
	for kind, name := range names {
		if a := &all[kind]; name != "" || a.Total > 0 {
			a.Add(name, tokens)
		}
	}
}

// rankings are nil where no name has weight.
func (all *accounts) rankings() (out [accountKinds]*Ranking) {
	for kind := range all {
		if a := &all[kind]; len(a.Counts) > 0 {
			out[kind] = &Ranking{Top: a.Top(maxRanked), Total: a.Total, Floor: a.Floor}
		}
	}
	return out
}
