package features

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/features/sketch"
)

// countersPerName is how many counters stand behind each name that is listed: with eight, a listed weight is off by at
// most 1/(8·Config.MaxTenants) of the class's tokens.
const countersPerName = 8

// RankingHalfLife is the time in which half of an account fades.
const RankingHalfLife = 30 * time.Minute

// Ranking lists who the tokens of a class were for, heaviest first: prompt and output tokens in a running account with a
// half-life of RankingHalfLife.
type Ranking struct {
	Top   []sketch.Count `cbor:"1,keyasint,omitempty"` // at most Config.MaxTenants
	Total float64        `cbor:"2,keyasint,omitempty"` // tokens in the account, nameless ones included
	// Floor bounds what is not known: it is at least the Error of every listed name, and the weight of every other one.
	Floor float64 `cbor:"3,keyasint,omitempty"`
}

// First is the heaviest name; its true share of the account is within share ± margin, fractions of one. When nobody was
// named, r is nil, the name is empty and the numbers are NaN.
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

// account is a Ranking as it is kept. A class that names nobody has none.
type account struct {
	names  sketch.TopK
	latest Ranking
}

// book adds tokens to the account at *at for a name, "" for nobody that is known.
func book(at **account, name string, tokens float64, counters int) {
	if *at == nil {
		if name == "" {
			return
		}
		*at = &account{names: *sketch.NewTopK(counters)}
	}
	(*at).names.Add(name, tokens)
}

// By what the tokens of a class are told apart.
const (
	byTenant = iota
	byFeature
	byModel
	byTier // of service
	accountKinds
)

// accounts are those of a class, each nil before the first name.
type accounts [accountKinds]*account

// weigh books the tokens that a record brought in the accounts of its class.
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

// rank brings the rankings of at most n names up to date.
func (all *accounts) rank(n int) {
	for _, a := range all {
		a.rank(n)
	}
}

// restore takes up accounts, with as many counters as are configured now.
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

// rank brings the ranking of at most n names up to date.
func (a *account) rank(n int) {
	if a == nil {
		return
	}
	a.latest = Ranking{Top: a.names.Top(n), Total: a.names.Total(), Floor: a.names.Floor()}
}

// ranking is the account's own until rank is called again.
func (a *account) ranking() *Ranking {
	if a == nil || len(a.latest.Top) == 0 {
		return nil
	}
	return &a.latest
}
