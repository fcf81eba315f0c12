package features

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

// engine is a replica whose requests begin with the same preamble. If it shares, it stores the preamble once.
type engine struct {
	shares   bool
	preamble float64
	running  []*ingest.Request
}

func (e *engine) used(s float64) (tokens float64) {
	for _, r := range e.running {
		if held := heldAt(r, s); held > 0 {
			tokens += held
			if e.shares {
				tokens -= e.preamble
			}
		}
	}
	if e.shares && tokens > 0 {
		tokens += e.preamble
	}
	return tokens
}

// The KV ratio is the tokens that engines hold, divided by those of all their requests. It is 1 if it cannot be known.
func TestKVRatio(t *testing.T) {
	const minutes, preamble = 60, 2000
	for name, tt := range map[string]struct {
		shares bool
		spoil  func(r *ingest.Request) // changes the records
		silent bool                    // one replica does not report
		noise  float64                 // relative, of reports
		known  bool                    // the ratio is below 1
	}{
		"shared":                  {shares: true, known: true},
		"shared, noisy reports":   {shares: true, noise: .1, known: true},
		"not shared":              {},
		"cached tokens not known": {shares: true, spoil: func(r *ingest.Request) { r.CachedTokens = ingest.Unknown }},
		"too few are cached":      {shares: true, spoil: func(r *ingest.Request) { r.CachedTokens /= 8 }},
		"times not known":         {shares: true, spoil: func(r *ingest.Request) { r.FinishedAt = r.ArrivedAt }},
		"a replica is silent":     {shares: true, silent: true},
		"reports contradict":      {shares: true, noise: .9},
		"half of output not known": {shares: true, spoil: func(r *ingest.Request) {
			if r.PromptTokens%2 == 0 {
				r.OutputTokens = ingest.Unknown
			}
		}},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		engines := [2]engine{{shares: tt.shares, preamble: preamble}, {shares: tt.shares, preamble: preamble}}
		a := New(testConfig())
		var measured, computed float64
		var last PoolMinute
		for m := range minutes {
			start, end := float64(m)*60, float64(m+1)*60
			for s := start + rng.ExpFloat64(); s < end; s += 2 * rng.ExpFloat64() {
				e := &engines[rng.IntN(2)]
				e.running = append(e.running, changed(request("", s), times(s, s+.5, s+2+10*rng.ExpFloat64()),
					tokens(preamble+100+rng.Int64N(2000), preamble, rng.Int64N(400))))
			}
			for i := range engines {
				e := &engines[i]
				for s := start; s < end; s++ {
					used := e.used(s)
					measured += used
					for _, r := range e.running {
						computed += heldAt(r, s)
					}
					if silent := i == 1 && tt.silent && m%3 > 0; int(s)%15 == 0 && !silent {
						r := reported(fmt.Sprint("r", i), s, ingest.ReplicaReady)
						r.KVUsedTokens = int64(used * (1 + tt.noise*(2*rng.Float64()-1)))
						a.AddReplica(r)
					}
				}
				e.running = slices.DeleteFunc(e.running, func(r *ingest.Request) bool {
					if r.FinishedAt.After(at(end)) {
						return false
					}
					if tt.spoil != nil {
						tt.spoil(r)
					}
					mustAdd(t, a, r)
					return true
				})
			}
			_, pools := a.Close(at(end))
			last = pools[0]
			if m == 30 {
				a = restarted(t, a, testConfig())
			}
		}
		want := 1.0
		if tt.known {
			want = measured / computed
		}
		if got := last.KVRatio; got < want*.98 || got > want*1.1 || !tt.known && got != 1 {
			t.Errorf("%s: ratio %.3f, want %.3f", name, got, want)
		}
	}
}
