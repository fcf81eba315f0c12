package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// plantedCache is a pool with a known KV cache. Its engines store the common first blocks of running requests once.
type plantedCache struct {
	tokens   float64 // of the cache of a replica, ±2 %
	block    float64 // tokens
	replicas int
	shared   float64    // tokens of prompt that all requests have in common
	load     [2]float64 // share of the cache in use: it varies between the two with a period of two hours
	stale    float64    // largest delay of a report, seconds
	ratio    bool       // engines report only the share that is in use, not the number of tokens
}

type plantedSequence struct{ from, first, to, prompt, output float64 }

func (q *plantedSequence) held(s float64) float64 {
	switch {
	case s < q.from || s >= q.to:
		return 0
	case s <= q.first:
		return q.prompt
	}
	return q.prompt + q.output*(s-q.first)/(q.to-q.first)
}

// learn returns what is learned of a replica in 100 minutes, and the truth: the tokens of the cache, and those of the
// requests in it, each counted separately. known reports whether these two differ.
func (p plantedCache) learn(seed uint64) (cache, held Estimate, known bool, tokens, ofRequests float64) {
	const minutes, every, newest = 100, 15, 40
	rng := rand.New(rand.NewPCG(seed, 22))
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	a := features.New(features.Config{Revise: 3 * time.Minute, MaxClasses: 9, ReplicaTTL: 3 * time.Minute})
	running, blocks := make([][]plantedSequence, p.replicas), make([]float64, p.replicas)
	capacity, used, each := 0., 0., 0. // used and each are of the newest minutes
	for i := range blocks {
		blocks[i] = math.Floor(p.tokens * (.98 + .04*rng.Float64()) / p.block)
		capacity += blocks[i] * p.block / float64(p.replicas)
	}
	prefix := math.Floor(p.shared/p.block) * p.block
	inUse := func(i int, s float64) (blocks, each float64) {
		for j := range running[i] {
			if held := running[i][j].held(s); held > 0 {
				each += held
				blocks += math.Ceil((held - prefix) / p.block)
			}
		}
		if each > 0 {
			blocks += prefix / p.block
		}
		return blocks, each
	}
	var last features.PoolMinute
	id := 0
	for m := range minutes {
		load := p.load[0] + (p.load[1]-p.load[0])*(.5-.5*math.Cos(2*math.Pi*float64(m)/120))
		for s := float64(60 * m); s < float64(60*(m+1)); s++ {
			for i := range running {
				// Requests come until the cache is filled up to the load.
				for tries := 0; tries < 4; tries++ {
					if n, _ := inUse(i, s); n >= load*blocks[i]*(.95+.1*rng.Float64()) {
						break
					}
					q := plantedSequence{from: s + rng.Float64(), prompt: p.shared + 200 + math.Floor(1500*rng.ExpFloat64()), output: 1 + math.Floor(300*rng.ExpFloat64())}
					q.first = q.from + .2 + q.prompt/8000
					q.to = q.first + .03*q.output
					running[i] = append(running[i], q)
				}
				n, of := inUse(i, s)
				if m >= minutes-newest {
					used, each = used+n*p.block, each+of
				}
				if int(s)%every == i%every {
					n, _ := inUse(i, s-p.stale*rng.Float64())
					r := ingest.Replica{
						Pool: "p", Name: fmt.Sprint("r", i), At: at(s), KVCapacityTokens: int64(blocks[i] * p.block), KVUsedTokens: ingest.Unknown,
						KVUsedRatio: math.Round(1000*n/blocks[i]) / 1000, Running: ingest.Unknown, Waiting: 0, PreemptionsTotal: ingest.Unknown,
						PrefixHitsTotal: ingest.Unknown, PrefixQueryTotal: ingest.Unknown, StartupSeconds: math.NaN(),
					}
					if p.ratio {
						r.KVCapacityTokens = ingest.Unknown
					}
					a.AddReplica(&r)
				}
				running[i] = slices.DeleteFunc(running[i], func(q plantedSequence) bool {
					if q.to > s-p.stale-1 {
						return false
					}
					id++
					a.AddAttempt(&ingest.Request{
						ID: fmt.Sprint(id), Pool: "p", Class: "chat", Attempt: 1, ArrivedAt: at(q.from), StartedAt: at(q.from), FirstTokenAt: at(q.first), FinishedAt: at(q.to),
						PromptTokens: int64(q.prompt), CachedTokens: int64(prefix), OutputTokens: int64(q.output), MaxOutputTokens: ingest.Unknown,
					}, features.Earlier{})
					return true
				})
			}
		}
		_, pools := a.Close(at(float64(60 * (m + 1))))
		last = pools[0]
	}
	st := &last.State
	cache = Estimate{Value: st.KVCapacityTokens}
	if st.KVCapacityTokens > 0 {
		cache.Low, cache.High = slices.Min(blocks)*p.block, slices.Max(blocks)*p.block
	}
	value := last.Carries(features.DimKV, st.KVCapacityTokens) // without an interval of its own: 10 %
	held = Estimate{Value: value, Low: .9 * value, High: 1.1 * value}
	return cache, held, last.KVRatio < 1, capacity, capacity * each / used
}

// TestPlantedKV is TestPlantedPrefill for the KV cache of a replica: its size in tokens, as engines report it, and how
// many tokens of requests with common prefixes it holds. The latter follows from the use that engines report and from
// the tokens of the requests. If engines report only the used share, both are unknown: less sharing would look like a
// smaller cache.
func TestPlantedKV(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 5))
	caches, shared := coverage{name: "KV cache, tokens"}, coverage{name: "KV cache, tokens of requests that begin alike"}
	for _, x := range []struct {
		name   string
		shared float64
		ratio  bool
	}{{"nothing shared", 0, false}, {"500 tokens shared", 500, false}, {"2,000 tokens shared", 2000, false}, {"only the share in use is reported", 2000, true}} {
		size, holds := coverage{name: "KV cache, tokens, " + x.name}, coverage{name: "KV cache, tokens of requests, " + x.name}
		for _, load := range [][2]float64{{.1, .1}, {.1, .5}, {.2, .95}, {.5, .5}, {.9, .9}, {.95, .95}} {
			for range 2 {
				p := plantedCache{
					tokens: 30_000 + 300_000*rng.Float64(), block: []float64{16, 64}[rng.IntN(2)], replicas: 1 + rng.IntN(4), shared: x.shared, load: load,
					stale: 10 * rng.Float64(), ratio: x.ratio,
				}
				cache, held, known, tokens, ofRequests := p.learn(rng.Uint64())
				size.add(cache, cache.Value > 0, tokens)
				holds.add(held, known, ofRequests)
				if !p.ratio {
					caches.add(cache, cache.Value > 0, tokens)
				}
				if !p.ratio && x.shared > 0 {
					shared.add(held, known, ofRequests)
				}
			}
		}
		size.log(t)
		holds.log(t)
		if x.ratio && size.known+holds.known > 0 || x.shared == 0 && holds.known > 0 {
			t.Errorf("%s: known in %d and %d pools", x.name, size.known, holds.known)
		}
	}
	caches.check(t)
	shared.check(t)
}
