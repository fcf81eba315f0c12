package features

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

// countersPerName is the number of counters per listed name. With eight, the error of a listed weight is at most
// 1/(8·Config.MaxTenants) of the class's tokens.
const countersPerName = 8

// RankingHalfLife is the time in which half of an account fades.
const RankingHalfLife = 30 * time.Minute

// Ranking lists the largest consumers of a class's tokens, largest first. It counts prompt and output tokens, which
// fade with RankingHalfLife.
type Ranking struct {
	Top   []sketch.Count `cbor:"1,keyasint,omitempty"` // at most Config.MaxTenants
	Total float64        `cbor:"2,keyasint,omitempty"` // tokens in the account, nameless ones included
	// Floor is an upper bound of the Error of every listed name and of the weight of every other name.
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

// account is the state of a Ranking. It is nil before the first name.
type account struct {
	names  sketch.TopK
	latest Ranking
}

// book adds tokens to the account at *at for a name; "" is unknown.
func book(at **account, name string, tokens float64, counters int) {
	if *at == nil {
		if name == "" {
			return
		}
		*at = &account{names: *sketch.NewTopK(counters)}
	}
	(*at).names.Add(name, tokens)
}

// The kinds of account of a class.
const (
	byTenant = iota
	byFeature
	byModel
	byTier // of service
	accountKinds
)

// accounts are those of a class, each nil before the first name.
type accounts [accountKinds]*account

// weigh adds the tokens of a record to the accounts of its class.
func (a *Aggregator) weigh(c *class, e *delta, tokens float64) {
	if tokens > 0 {
		for kind, name := range e.names {
			book(&c.accounts[kind], name, tokens, countersPerName*a.cfg.MaxTenants)
		}
	}
}

func (all *accounts) fade(factor float64) {
	for _, a := range all {
		a.fade(factor)
	}
}

// rank updates the rankings of at most n names.
func (all *accounts) rank(n int) {
	for _, a := range all {
		a.rank(n)
	}
}

// restore restores accounts with the number of counters that is configured now.
func (all *accounts) restore(states [accountKinds]*sketch.TopKState, counters int) error {
	for kind, s := range states {
		if s == nil {
			continue
		}
		state := *s
		state.Counters = counters
		names, err := sketch.RestoreTopK(state)
		if err != nil {
			return err
		}
		all[kind] = &account{names: *names}
	}
	return nil
}

func (a *account) fade(factor float64) {
	if a != nil {
		a.names.Scale(factor)
	}
}

// rank updates the ranking of at most n names.
func (a *account) rank(n int) {
	if a == nil {
		return
	}
	a.latest = Ranking{Top: a.names.Top(n), Total: a.names.Total(), Floor: a.names.Floor()}
}

// ranking is valid until rank is called again.
func (a *account) ranking() *Ranking {
	if a == nil || len(a.latest.Top) == 0 {
		return nil
	}
	return &a.latest
}
