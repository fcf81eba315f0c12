package capacity

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// plantedPool is a pool with a known prefill rate. Its engines compute prompts in one of three ways, after an overhead
// that does not depend on the length.
type plantedPool struct {
	engine   string // "shared": all prompts at once, "queued": one after the other, "chunked": iterations of a bounded number of tokens
	rate     float64
	overhead float64 // seconds, ±20 % by request
	replicas int
	least    bool // the router chooses the replica with the least work, otherwise a random one
	lengths  string
	load     [2]float64 // share of the rate: it varies between the two with a period of six hours
}

type plantedPrompt struct{ at, tokens, took float64 }

func (p plantedPool) tokens(rng *rand.Rand) float64 {
	lognormal := func(median, sigma float64) float64 { return math.Ceil(median * math.Exp(sigma*rng.NormFloat64())) }
	switch p.lengths {
	case "short":
		return lognormal(300, .6)
	case "long":
		return lognormal(5000, .5)
	case "mixed":
		if rng.Float64() < .15 {
			return lognormal(6000, .4)
		}
		return lognormal(300, .8)
	case "equal":
		return 300
	}
	return math.Round(300 + 5*rng.NormFloat64()) // "alike"
}

// minutes returns what a pipeline observes in n minutes.
func (p plantedPool) minutes(n int, seed uint64) []ServiceMinute {
	rng := rand.New(rand.NewPCG(seed, 21))
	mean := 0.0
	for range 20000 {
		mean += p.tokens(rng) / 20000
	}
	prompts := make([][]plantedPrompt, p.replicas)
	work := make([]float64, p.replicas) // seconds of work in the queue of each replica, at the time last
	last := 0.0
	for m := range n {
		swing := .5 - .5*math.Cos(2*math.Pi*float64(m)/360)
		wander := math.Exp(.1 * rng.NormFloat64())
		if p.load[0] == p.load[1] {
			wander = 1
		}
		load := min((p.load[0]+(p.load[1]-p.load[0])*swing)*wander, .97)
		perS := load * p.rate * float64(p.replicas) / mean
		for at := float64(60 * m); ; {
			at += rng.ExpFloat64() / perS
			if at >= float64(60*(m+1)) {
				break
			}
			r := rng.IntN(p.replicas)
			for i := range work {
				work[i] = max(work[i]-(at-last), 0)
				if p.least && work[i] < work[r] {
					r = i
				}
			}
			last = at
			x := p.tokens(rng)
			work[r] += x / p.rate
			prompts[r] = append(prompts[r], plantedPrompt{at: at, tokens: x})
		}
	}
	out := make([]ServiceMinute, n)
	for i := range out {
		out[i].Replicas = float64(p.replicas)
	}
	for _, list := range prompts {
		p.compute(list)
		for _, q := range list {
			m := &out[min(int(q.at/60), n-1)]
			took := q.took + p.overhead*(.8+.4*rng.Float64())
			m.Prompts.Add(q.tokens, took)
			m.Prefill += q.tokens / 60 / float64(p.replicas)
		}
	}
	return out
}

// The chunked engine computes at most plantedChunk tokens in an iteration. Decoding takes plantedDecode seconds of
// each.
const (
	plantedChunk  = 2048
	plantedDecode = .015
)

// compute sets how long each prompt of one replica takes.
func (p plantedPool) compute(list []plantedPrompt) {
	switch p.engine {
	case "shared":
		share(list, p.rate)
	case "queued":
		free := 0.0
		for i := range list {
			free = max(free, list[i].at) + list[i].tokens/p.rate
			list[i].took = free - list[i].at
		}
	case "chunked":
		perToken := 1/p.rate - plantedDecode/plantedChunk // so that full iterations have the rate
		now, next := 0.0, 0
		type left struct {
			i      int
			tokens float64
		}
		var queue []left
		for next < len(list) || len(queue) > 0 {
			if len(queue) == 0 {
				now = max(now, list[next].at)
			}
			for next < len(list) && list[next].at <= now {
				queue = append(queue, left{next, list[next].tokens})
				next++
			}
			budget := float64(plantedChunk)
			done := 0
			for j := range queue {
				take := min(queue[j].tokens, budget)
				queue[j].tokens, budget = queue[j].tokens-take, budget-take
				if queue[j].tokens > 0 {
					break
				}
				done++
			}
			now += plantedDecode + (plantedChunk-budget)*perToken
			for _, q := range queue[:done] {
				list[q.i].took = now - list[q.i].at
			}
			queue = queue[done:]
		}
	}
}

// share is processor sharing, by virtual time.
func share(list []plantedPrompt, rate float64) {
	var active marks
	now, each := 0.0, 0.0 // each: tokens computed so far of a prompt that was there from the beginning
	finish := func(until float64) {
		for len(active) > 0 {
			done := now + (active[0].mark-each)*float64(len(active))/rate
			if done > until {
				each += (until - now) * rate / float64(len(active))
				break
			}
			each, now = active[0].mark, done
			q := heap.Pop(&active).(mark)
			list[q.i].took = now - list[q.i].at
		}
		now = until
	}
	for i := range list {
		finish(list[i].at)
		heap.Push(&active, mark{each + list[i].tokens, i})
	}
	finish(math.Inf(1))
}

type mark struct {
	mark float64
	i    int
}

type marks []mark

func (m marks) Len() int           { return len(m) }
func (m marks) Less(i, j int) bool { return m[i].mark < m[j].mark }
func (m marks) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *marks) Push(x any)        { *m = append(*m, x.(mark)) }
func (m *marks) Pop() any {
	x := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return x
}

// coverage counts how often a learned interval contains the true value.
type coverage struct {
	name                 string
	n, known, held, near int
	worst                float64 // error of the value
}

func (c *coverage) add(e Estimate, ok bool, truth float64) {
	c.n++
	if !ok {
		return
	}
	c.known++
	if e.Low <= truth && truth <= e.High {
		c.held++
	}
	off := e.Value/truth - 1
	if math.Abs(off) <= .1 {
		c.near++
	}
	if math.Abs(off) > math.Abs(c.worst) {
		c.worst = off
	}
}

func (c *coverage) log(t *testing.T) {
	t.Helper()
	share := func(n int) string {
		if c.known == 0 {
			return "–"
		}
		return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(c.known))
	}
	t.Logf("| %s | %d | %d | %s | %s | %+.1f %% |", c.name, c.n, c.known, share(c.held), share(c.near), 100*c.worst)
}

func (c *coverage) check(t *testing.T) {
	t.Helper()
	c.log(t)
	if float64(c.held) < .9*float64(c.known) || float64(c.near) < .95*float64(c.known) || c.known < c.n/3 {
		t.Errorf("%s: known in %d of %d; %d intervals have the true value, and %d values are within 10 %%", c.name, c.known, c.n, c.held, c.near)
	}
}

// TestPlantedPrefill: after six hours the learned interval has the true rate in nine of ten pools, for any overhead,
// lengths, engine, router and load, or the rate is unknown. The log is the table of BENCHMARKS.md.
func TestPlantedPrefill(t *testing.T) {
	all := coverage{name: "prefill, all"}
	rng := rand.New(rand.NewPCG(5, 5))
	for _, engine := range []string{"shared", "queued", "chunked"} {
		for _, lengths := range []string{"short", "long", "mixed", "equal"} {
			c := coverage{name: "prefill, " + engine + ", " + lengths}
			for _, load := range [][2]float64{{.1, .3}, {.1, .6}, {.2, .95}, {.5, .5}, {.6, .9}, {.95, .95}} {
				for seed := range uint64(2) {
					p := plantedPool{engine: engine, rate: 3000 + 9000*rng.Float64(), overhead: .5 * rng.Float64(), replicas: 1 + rng.IntN(4), least: rng.IntN(2) == 0, lengths: lengths, load: load}
					s := observed(p.minutes(360, seed))
					e, ok := s.Prefill()
					c.add(e, ok, p.rate)
					all.add(e, ok, p.rate)
				}
			}
			if lengths == "equal" && c.known > 0 {
				t.Errorf("%s engines: a rate is known from prompts of one length in %d pools", engine, c.known)
			}
			c.log(t)
		}
	}
	all.check(t)
}

// TestPlantedDecode is TestPlantedPrefill for decode, after a day of varying load. How long an iteration takes, its
// noise, the context and the binding limit are random. If loads stay below the knee, the rate is marked as
// extrapolated. Its interval has the true rate even if iterations grow twice as fast from half of the knee on, where
// there was no load.
func TestPlantedDecode(t *testing.T) {
	all, beyond := coverage{name: "decode, all"}, coverage{name: "decode, all extrapolated"}
	rng := rand.New(rand.NewPCG(6, 5))
	for _, x := range []struct {
		name  string
		share float64 // batch of the busiest minutes over that at the knee
		noise float64
		bend  float64
	}{
		{"up to the knee", 1, .03, 0}, {"up to the knee, noisy", 1, .1, 0}, {"up to half of it", .5, .05, 0}, {"up to a quarter of it", .25, .05, 0},
		{"up to a tenth of it", .1, .05, 0}, {"up to a tenth of it, noisy", .1, .1, 0}, {"up to a quarter of it, bent beyond", .25, .05, 1}, {"up to a tenth of it, bent beyond", .1, .05, 1},
	} {
		c := coverage{name: "decode, " + x.name}
		for range 24 {
			p := truth{a0: .008 + .02*rng.Float64(), perSequence: 300e-6 * rng.Float64(), perThousand: 10e-6 + 50e-6*rng.Float64(), prefill: 8000, context: 500 + 4000*rng.Float64()}
			objective, kvTokens := p.a0*(1.3+2*rng.Float64()), 50_000+300_000*rng.Float64()
			most := 1.0
			for most < 256 && most*p.context < kvTokens && p.itl(most, most*p.context) < objective {
				most++
			}
			p.bend, p.bends = x.bend, most/2
			want := p.goodput(256, kvTokens, objective)
			s := observed(p.minutes(1440, x.share*most, x.noise, .01))
			e, ok := s.Decode(256, kvTokens, objective)
			if e.Extrapolated != (x.share < .8) {
				t.Errorf("%s: extrapolated is %t", c.name, e.Extrapolated)
			}
			c.add(e, ok, want)
			if e.Extrapolated {
				beyond.add(e, ok, want)
			} else {
				all.add(e, ok, want)
			}
		}
		c.log(t)
	}
	all.check(t)
	if beyond.log(t); float64(beyond.held) < .9*float64(beyond.n) {
		t.Errorf("%s: %d intervals of %d have the true rate", beyond.name, beyond.held, beyond.n)
	}
}
