package backtest

import (
	"cmp"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// WorkloadConfig configures a workload.
type WorkloadConfig struct {
	Start   time.Time     // zero means DefaultStart
	End     time.Time     // zero means never
	Rate    float64       // factor of all rates; 0 means 1, about 300,000 requests a day
	Classes []ClassConfig // nil means DefaultClasses
	Launch  time.Time     // start of an agent release, see LaunchRate; zero means none
}

// A launch has LaunchRate times the calls of launchClass, with prompts LaunchContext times as long, within LaunchRamp.
const (
	launchClass   = "agent"
	LaunchRamp    = 35 * time.Minute
	LaunchRate    = 3.0
	LaunchContext = 1.6
)

// Workload generates requests in order of time; the same ones for the same configuration and seed. For one goroutine.
type Workload struct {
	classes []*classStream
	end     time.Time
}

// NewWorkload seeds each class separately, so that a change to one does not affect the others.
func NewWorkload(cfg WorkloadConfig, seed uint64) *Workload {
	cfg.Start, cfg.Rate = cmp.Or(cfg.Start, DefaultStart), cmp.Or(cfg.Rate, 1)
	if cfg.Classes == nil {
		cfg.Classes = DefaultClasses()
	}
	w := &Workload{end: cfg.End}
	for i, class := range cfg.Classes {
		w.classes = append(w.classes, newClassStream(class, cfg, rand.New(rand.NewPCG(seed, uint64(i)+1))))
	}
	return w
}

// Next sets it to the next request; io.EOF at the end. O(classes).
func (w *Workload) Next(it *Item) error {
	first := w.classes[0]
	for _, s := range w.classes[1:] {
		if s.at < first.at {
			first = s
		}
	}
	it.Request = first.take()
	if !w.end.IsZero() && !it.Request.ArrivedAt.Before(w.end) {
		return io.EOF
	}
	return nil
}

// classStream generates the requests of one class: a renewal process in operational time. The integral of the rate,
// which is constant within rateStep, converts it to the clock.
type classStream struct {
	cfg    ClassConfig
	launch float64 // s since start; +Inf without one
	scale  float64 // rate factor of the workload
	start  time.Time
	rng    *rand.Rand
	day    float64 // mean of cfg.Day

	at     float64 // s since start of the next request
	step   int64   // index of the rate step of at
	rate   float64 // per second in that step
	bursts []float64
}

const rateStep = 15.0 // s

func newClassStream(cfg ClassConfig, w WorkloadConfig, rng *rand.Rand) *classStream {
	s := &classStream{cfg: cfg, launch: math.Inf(1), scale: w.Rate, start: w.Start, rng: rng, step: -1}
	if cfg.Name == launchClass && !w.Launch.IsZero() {
		s.launch = w.Launch.Sub(w.Start).Seconds()
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

// take returns the next request and draws the one after it.
func (s *classStream) take() *ingest.Request {
	r := &ingest.Request{
		Class: s.cfg.Name, Tenant: s.cfg.Tenants[s.rng.IntN(len(s.cfg.Tenants))], Attempt: 1,
		MaxOutputTokens: s.cfg.MaxOutput, ArrivedAt: s.start.Add(time.Duration(s.at*1e3) * time.Millisecond),
	}
	s.setLengths(r)
	s.advance()
	return r
}

// advance moves to the next request, at a gap of mean one in the integral of the rate.
func (s *classStream) advance() {
	gap := math.Pow(s.rng.ExpFloat64(), 1/s.cfg.Shape) / math.Gamma(1+1/s.cfg.Shape)
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

// rateAt returns the expected rate at t seconds from the start, and advances the random bursts.
func (s *classStream) rateAt(t float64) float64 {
	at := s.start.Add(time.Duration(t * float64(time.Second)))
	midnight := at.Truncate(24 * time.Hour)
	hours := at.Sub(midnight).Hours()
	h := int(hours)
	f := hours - float64(h)
	rate := s.cfg.PerSecond * s.scale * (s.cfg.Day[h]*(1-f) + s.cfg.Day[(h+1)%24]*f) / s.day
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
	return rate * s.ramp(t, LaunchRate)
}

// ramp is the launch's factor at t: a smooth step from 1 to factor.
func (s *classStream) ramp(t, factor float64) float64 {
	x := min(1, max(0, (t-s.launch)/LaunchRamp.Seconds()))
	return 1 + (factor-1)*x*x*(3-2*x)
}

// setLengths draws the lengths of a request. Its prompt repeats the earlier turns of its session: Turns − 1 on average.
// A turn that would exceed the context begins a session.
func (s *classStream) setLengths(r *ingest.Request) {
	c := &s.cfg
	stretch := s.ramp(s.at, LaunchContext)
	preamble := float64(c.Preamble) * stretch
	context := preamble
	for s.rng.Float64() < 1-1/c.Turns {
		context += s.prompt()*stretch + s.output()
	}
	added := s.prompt() * stretch
	if context+added > float64(c.Context) {
		context = preamble
	}
	r.OutputTokens = int64(s.output())
	r.PromptTokens = min(c.Context, int64(context+max(1, added)))
	r.CachedTokens = int64(preamble)
	if s.rng.Float64() < c.Hit {
		r.CachedTokens = int64(context)
	}
	r.CachedTokens = min(r.CachedTokens, r.PromptTokens-1)
}

func (s *classStream) output() float64 {
	return min(float64(s.cfg.MaxOutput), 1+s.rng.ExpFloat64()*s.cfg.OutputMean)
}

// prompt draws the added length of a turn: a lognormal body with a Pareto tail.
func (s *classStream) prompt() float64 {
	c := &s.cfg
	if s.rng.Float64() < c.TailShare {
		return min(float64(c.Context), c.TailFrom*math.Pow(1-s.rng.Float64(), -1/c.TailIndex))
	}
	return min(float64(c.Context), c.PromptMedian*math.Exp(c.PromptSigma*s.rng.NormFloat64()))
}

// ClassConfig is the law of one class's traffic. The shapes are from production data in ServeGen (arXiv 2505.09999,
// NSDI'26): Weibull gaps; prompt lengths with a lognormal body and a Pareto tail; exponential output lengths. The
// numbers are ours.
type ClassConfig struct {
	Name      string
	PerSecond float64     // mean request rate over a day
	Shape     float64     // of the Weibull gaps between requests; 1 is a Poisson process, less is burstier
	Day       [24]float64 // rate at each hour relative to its mean, with linear interpolation
	Bursts    []Burst

	// New prompts: lognormal with this median and sigma, or with probability TailShare Pareto from TailFrom with
	// exponent TailIndex.
	PromptMedian, PromptSigma      float64
	TailShare, TailFrom, TailIndex float64
	Preamble                       int64   // cached system prompt and tool description at the start of each prompt, tokens
	OutputMean                     float64 // of the exponential output length, tokens
	Context, MaxOutput             int64   // bounds of a prompt and an output, tokens

	Turns   float64  // mean number of the request in its session (geometric)
	Hit     float64  // probability that the prefix cache has the earlier turns
	Tenants []string // send equally many requests
}

// Burst is a recurring surge. It begins every Every after midnight at Offset or, if Random is set, at times of a
// Poisson process with that mean gap. It multiplies the rate by Factor at once and decays to nothing over Length.
type Burst struct {
	Every, Offset, Length time.Duration
	Factor                float64
	Random                bool
}

// Hours of a day by the source of the traffic: leisure, work, and machines.
var (
	leisure = [24]float64{
		.62, .48, .38, .32, .30, .34, .48, .70, .92, 1.08, 1.18, 1.24,
		1.22, 1.20, 1.22, 1.26, 1.28, 1.28, 1.30, 1.38, 1.46, 1.40, 1.16, .86,
	}
	work = [24]float64{
		.22, .16, .14, .14, .16, .24, .48, .92, 1.52, 1.92, 2.04, 1.88,
		1.48, 1.70, 1.98, 2.00, 1.84, 1.46, .98, .72, .58, .50, .42, .32,
	}
	machine = [24]float64{
		1.3, 1.4, 1.4, 1.3, 1.2, 1.1, 1.0, .9, .8, .8, .8, .8,
		.8, .8, .8, .8, .8, .9, .9, 1.0, 1.0, 1.0, 1.1, 1.2,
	}
)

// DefaultClasses are the five classes of the demo, about 300,000 requests a day in all:
//
//   - chat: people at leisure, short prompts that grow over a conversation, with random surges (news, a viral post);
//   - code: completions in editors, working hours, long shared context and very short outputs;
//   - agent: runs of some twenty calls, each sending the whole run again: the most tokens of all, mostly cached;
//   - rag: answers from retrieved documents, working hours, a morning surge at nine, little to cache;
//   - summarise: batch jobs that a scheduler starts at five past each second hour, long documents, Pareto tail.
func DefaultClasses() []ClassConfig {
	return []ClassConfig{
		{
			Name: "chat", PerSecond: 1.2, Shape: .8, Day: leisure,
			Bursts:       []Burst{{Random: true, Every: 5 * time.Hour, Length: 18 * time.Minute, Factor: 2}},
			PromptMedian: 180, PromptSigma: 1.1, TailShare: .04, TailFrom: 1500, TailIndex: 1.6, Preamble: 256,
			OutputMean: 280, Context: 32_000, MaxOutput: 4096, Turns: 4, Hit: .85,
			Tenants: []string{"app", "web", "api", "partner"},
		},
		{
			Name: "code", PerSecond: 1.4, Shape: .7, Day: work,
			PromptMedian: 1400, PromptSigma: .6, TailShare: .03, TailFrom: 4000, TailIndex: 2, Preamble: 128,
			OutputMean: 40, Context: 16_000, MaxOutput: 512, Turns: 6, Hit: .9,
			Tenants: []string{"editor", "review", "ci"},
		},
		{
			Name: "agent", PerSecond: .5, Shape: .6, Day: work,
			PromptMedian: 900, PromptSigma: .9, TailShare: .08, TailFrom: 4000, TailIndex: 1.5, Preamble: 3072,
			OutputMean: 220, Context: 64_000, MaxOutput: 4096, Turns: 20, Hit: .92,
			Tenants: []string{"builder", "support", "research", "ops", "sales"},
		},
		{
			Name: "rag", PerSecond: .35, Shape: .9, Day: work,
			Bursts:       []Burst{{Every: 24 * time.Hour, Offset: 9 * time.Hour, Length: 40 * time.Minute, Factor: 1.8}},
			PromptMedian: 3600, PromptSigma: .5, TailShare: .05, TailFrom: 8000, TailIndex: 1.8, Preamble: 512,
			OutputMean: 240, Context: 48_000, MaxOutput: 2048, Turns: 1.6, Hit: .5,
			Tenants: []string{"search", "helpdesk", "legal"},
		},
		{
			Name: "summarise", PerSecond: .15, Shape: .65, Day: machine,
			Bursts:       []Burst{{Every: 2 * time.Hour, Offset: 5 * time.Minute, Length: 25 * time.Minute, Factor: 5}},
			PromptMedian: 5200, PromptSigma: .8, TailShare: .1, TailFrom: 12_000, TailIndex: 1.4, Preamble: 256,
			OutputMean: 420, Context: 64_000, MaxOutput: 4096, Turns: 1, Hit: 0,
			Tenants: []string{"nightly", "archive"},
		},
	}
}
