package backtest

import (
	"math"
	"math/rand/v2"
	"time"
)

// Arrival is one request of a synthetic workload, as sent by the client.
type Arrival struct {
	ID            uint64 // 1, 2, … in order of time
	At            time.Time
	Class, Tenant string
	Session       uint64 // never 0
	// Token counts: the prompt includes the cached tokens; the output is what the model will write.
	PromptTokens, CachedTokens, OutputTokens, MaxOutputTokens int64
}

// WorkloadConfig configures a workload.
type WorkloadConfig struct {
	Start   time.Time     // zero means DefaultStart
	Rate    float64       // factor of all rates; 0 means 1, about 300,000 requests a day
	Classes []ClassConfig // nil means DefaultClasses
	Launch  Launch
}

// Workload generates endless arrivals in order of time. The same configuration and seed give the same arrivals. It is
// not safe for concurrent use.
type Workload struct {
	classes []*classStream
	n       uint64
}

// NewWorkload seeds each class separately, so that a change to one does not affect the others.
func NewWorkload(cfg WorkloadConfig, seed uint64) *Workload {
	if cfg.Start.IsZero() {
		cfg.Start = DefaultStart
	}
	if cfg.Rate == 0 {
		cfg.Rate = 1
	}
	if cfg.Classes == nil {
		cfg.Classes = DefaultClasses()
	}
	w := &Workload{}
	for i, class := range cfg.Classes {
		w.classes = append(w.classes, newClassStream(class, cfg, uint64(i)+1, rand.New(rand.NewPCG(seed, uint64(i)+1))))
	}
	return w
}

// Next returns the next arrival. O(classes).
func (w *Workload) Next() Arrival {
	first := w.classes[0]
	for _, s := range w.classes[1:] {
		if s.at < first.at {
			first = s
		}
	}
	a := first.take()
	w.n++
	a.ID = w.n
	return a
}

// classStream generates the arrivals of one class: a renewal process in operational time. The integral of the rate,
// which is constant within rateStep, converts it to the clock.
type classStream struct {
	cfg    ClassConfig
	number uint64 // makes session ids unique between classes
	launch Launch
	scale  float64 // rate factor of the workload
	start  time.Time
	rng    *rand.Rand
	weight float64 // sum of the tenants' weights
	day    float64 // mean of cfg.Day

	at     float64 // s since start of the next arrival
	step   int64   // index of the rate step of at
	rate   float64 // per second in that step
	bursts []float64
	live   sessions
}

const rateStep = 15.0 // s

func newClassStream(cfg ClassConfig, w WorkloadConfig, number uint64, rng *rand.Rand) *classStream {
	s := &classStream{cfg: cfg, number: number, scale: w.Rate, start: w.Start, rng: rng, step: -1}
	if w.Launch.Class == cfg.Name && !w.Launch.At.IsZero() {
		s.launch = w.Launch
	}
	for i := range cfg.Tenants {
		s.weight += 1 / float64(i+1)
	}
	for _, x := range cfg.Day {
		s.day += x / 24
	}
	s.bursts = make([]float64, len(cfg.Bursts))
	for i, b := range cfg.Bursts {
		s.bursts[i] = math.Inf(-1)
		if b.Random {
			s.bursts[i] = rng.ExpFloat64() * b.Every.Seconds()
		}
	}
	s.advance()
	return s
}

// take returns the next arrival and draws the one after it.
func (s *classStream) take() Arrival {
	a := Arrival{
		At: s.start.Add(time.Duration(s.at*1e3) * time.Millisecond), Class: s.cfg.Name, Tenant: s.tenant(), MaxOutputTokens: s.cfg.MaxOutput,
	}
	s.shape(&a)
	s.advance()
	return a
}

// advance moves to the next arrival, at a gap of mean one in the integral of the rate.
func (s *classStream) advance() {
	gap := s.gap()
	for {
		if step := int64(s.at / rateStep); step != s.step {
			s.step, s.rate = step, s.rateAt(float64(step)*rateStep)
		}
		end := float64(s.step+1) * rateStep
		if room := (end - s.at) * s.rate; gap >= room {
			gap -= room
			s.at = end
			continue
		}
		s.at += gap / s.rate
		return
	}
}

func (s *classStream) gap() float64 {
	k := s.cfg.Shape
	if s.cfg.Gap == Weibull {
		return math.Pow(s.rng.ExpFloat64(), 1/k) / math.Gamma(1+1/k)
	}
	return gammaDraw(s.rng, k) / k
}

// rateAt returns the expected rate at t seconds from the start, and advances the random bursts.
func (s *classStream) rateAt(t float64) float64 {
	at := s.start.Add(time.Duration(t * float64(time.Second)))
	midnight := at.Truncate(24 * time.Hour)
	hours := at.Sub(midnight).Hours()
	h := int(hours)
	f := hours - float64(h)
	rate := s.cfg.PerSecond * s.scale * (s.cfg.Day[h]*(1-f) + s.cfg.Day[(h+1)%24]*f) / s.day
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
		rate *= s.cfg.Weekend
	}
	for i, b := range s.cfg.Bursts {
		var since float64
		if b.Random {
			for s.bursts[i]+b.Length.Seconds() < t {
				s.bursts[i] += b.Length.Seconds() + s.rng.ExpFloat64()*b.Every.Seconds()
			}
			since = t - s.bursts[i]
		} else {
			since = (at.Sub(midnight) - b.Offset).Seconds()
			since -= math.Floor(since/b.Every.Seconds()) * b.Every.Seconds()
		}
		if left := 1 - since/b.Length.Seconds(); since >= 0 && left > 0 {
			rate *= 1 + (b.Factor-1)*left
		}
	}
	return rate * s.ramp(t, s.launch.RateFactor)
}

// ramp is the launch's factor at t: a smooth step from 1 to factor.
func (s *classStream) ramp(t, factor float64) float64 {
	if s.launch.At.IsZero() {
		return 1
	}
	x := min(1, max(0, (t-s.launch.At.Sub(s.start).Seconds())/s.launch.Ramp.Seconds()))
	return 1 + (factor-1)*x*x*(3-2*x)
}

func (s *classStream) tenant() string {
	u := s.rng.Float64() * s.weight
	for i, name := range s.cfg.Tenants {
		if u -= 1 / float64(i+1); u < 0 {
			return name
		}
	}
	return ""
}

// gammaDraw is a Gamma(k, 1) variate: Marsaglia and Tsang 2000, doi:10.1145/358407.358414, with their boost for k < 1.
func gammaDraw(rng *rand.Rand, k float64) float64 {
	if k < 1 {
		return gammaDraw(rng, k+1) * math.Pow(rng.Float64(), 1/k)
	}
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if u := rng.Float64(); math.Log(u) < x*x/2+d*(1-v+math.Log(v)) {
			return d * v
		}
	}
}

// cacheBlock is the granularity of prefix caching in the workload, tokens.
const cacheBlock = 16

// maxSessions bounds the open sessions of a class.
const maxSessions = 256

// session is one conversation or agent run that may have another turn.
type session struct {
	id      uint64
	context int64   // tokens that the next turn repeats
	stretch float64 // context factor of the launch at its start
}

// sessions are a class's open sessions; beyond maxSessions a random one is replaced.
type sessions struct {
	open []session
	n    uint64
}

// shape draws the lengths of an arrival, which continues a session or begins one. With g = Turns the probability to
// continue is 1 − 1/g, so that sessions have g turns on average in the long run.
func (s *classStream) shape(a *Arrival) {
	c := &s.cfg
	stretch := s.ramp(s.at, s.launch.ContextFactor)
	fresh := int64(s.prompt() * stretch)
	a.OutputTokens = min(c.MaxOutput, 1+int64(s.rng.ExpFloat64()*c.OutputMean))

	live := &s.live
	i := -1
	if len(live.open) > 0 && s.rng.Float64() < 1-1/c.Turns {
		i = s.rng.IntN(len(live.open))
	}
	if i < 0 || live.open[i].context+fresh > c.Context {
		live.n++
		begun := session{id: s.number<<48 | live.n, context: int64(float64(c.Preamble) * stretch), stretch: stretch}
		switch {
		case i >= 0: // a session with a full context is replaced
			live.open[i] = begun
		case len(live.open) < s.openSessions():
			live.open = append(live.open, begun)
			i = len(live.open) - 1
		default:
			i = s.rng.IntN(len(live.open))
			live.open[i] = begun
		}
		a.CachedTokens = blocks(begun.context) // the preamble is cached
	} else if s.rng.Float64() < c.Hit {
		a.CachedTokens = blocks(live.open[i].context)
	} else {
		a.CachedTokens = blocks(int64(float64(c.Preamble) * live.open[i].stretch))
	}
	open := &live.open[i]
	a.PromptTokens = min(c.Context, open.context+max(1, fresh))
	a.CachedTokens = min(a.CachedTokens, a.PromptTokens-1)
	open.context = a.PromptTokens + a.OutputTokens
	a.Session = open.id
}

// openSessions returns the number of open sessions, in proportion to the rate: about four minutes of traffic.
func (s *classStream) openSessions() int {
	return min(maxSessions, max(4, int(s.rate*240/s.cfg.Turns)))
}

// prompt draws the added length of a turn: a lognormal body with a Pareto tail.
func (s *classStream) prompt() float64 {
	c := &s.cfg
	if s.rng.Float64() < c.TailShare {
		return min(float64(c.Context), c.TailFrom*math.Pow(1-s.rng.Float64(), -1/c.TailIndex))
	}
	return min(float64(c.Context), c.PromptMedian*math.Exp(c.PromptSigma*s.rng.NormFloat64()))
}

func blocks(tokens int64) int64 { return tokens / cacheBlock * cacheBlock }
