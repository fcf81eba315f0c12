package backtest

import "time"

// ClassConfig is the law of one class's traffic. The shapes are from production data in ServeGen (arXiv 2505.09999,
// NSDI'26): bursts with Gamma or Weibull gaps; prompt lengths with a lognormal body and a Pareto tail; exponential
// output lengths. The numbers are ours.
type ClassConfig struct {
	Name string

	// PerSecond is the mean request rate over a day.
	PerSecond float64
	// Gap is the law of the gaps between requests with parameter Shape; 1 is a Poisson process, less is burstier.
	Gap   GapLaw
	Shape float64
	// Day is the rate at each hour relative to its mean, with linear interpolation. Weekend multiplies it on Saturday
	// and Sunday.
	Day     [24]float64
	Weekend float64
	// Bursts recur; see Burst.
	Bursts []Burst

	// New prompts: lognormal with this median and sigma, or with probability TailShare Pareto from TailFrom with
	// exponent TailIndex.
	PromptMedian, PromptSigma      float64
	TailShare, TailFrom, TailIndex float64
	// Preamble is the cached system prompt and tool description at the start of each prompt, tokens.
	Preamble int64
	// OutputMean is the mean of the exponential output length.
	OutputMean float64
	// Context and MaxOutput bound a prompt and an output.
	Context, MaxOutput int64

	// Turns is the mean number of requests in a session (geometric); each further turn repeats the earlier ones.
	Turns float64
	// Hit is the probability that the prefix cache has the earlier turns.
	Hit float64
	// Tenants share the class's requests as 1, 1/2, 1/3, …
	Tenants []string
}

// GapLaw is a law of the gaps between arrivals.
type GapLaw uint8

// The gap laws, both scaled to a mean of one.
const (
	Gamma GapLaw = iota
	Weibull
)

// Burst is a recurring surge. It begins every Every after midnight at Offset or, if Random is set, at times of a
// Poisson process with that mean gap. It multiplies the rate by Factor at once and decays to nothing over Length.
type Burst struct {
	Every, Offset, Length time.Duration
	Factor                float64
	Random                bool
}

// Launch is a lasting change of one class: over Ramp from At on its rate grows to RateFactor times, and its prompts to
// ContextFactor times. A zero At means no launch.
type Launch struct {
	Class                     string
	At                        time.Time
	Ramp                      time.Duration
	RateFactor, ContextFactor float64
}

// DefaultLaunch is an agent release: three times the calls and prompts 1.6 times as long, within 35 minutes.
func DefaultLaunch(at time.Time) Launch {
	return Launch{Class: "agent", At: at, Ramp: 35 * time.Minute, RateFactor: 3, ContextFactor: 1.6}
}

// Hours of a day by the source of the traffic: leisure, work, and machines.
var (
	leisure = [24]float64{.62, .48, .38, .32, .30, .34, .48, .70, .92, 1.08, 1.18, 1.24, 1.22, 1.20, 1.22, 1.26, 1.28, 1.28, 1.30, 1.38, 1.46, 1.40, 1.16, .86}
	work    = [24]float64{.22, .16, .14, .14, .16, .24, .48, .92, 1.52, 1.92, 2.04, 1.88, 1.48, 1.70, 1.98, 2.00, 1.84, 1.46, .98, .72, .58, .50, .42, .32}
	machine = [24]float64{1.3, 1.4, 1.4, 1.3, 1.2, 1.1, 1.0, .9, .8, .8, .8, .8, .8, .8, .8, .8, .8, .9, .9, 1.0, 1.0, 1.0, 1.1, 1.2}
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
			Name: "chat", PerSecond: 1.2, Gap: Gamma, Shape: .6, Day: leisure, Weekend: 1.1,
			Bursts:       []Burst{{Random: true, Every: 5 * time.Hour, Length: 18 * time.Minute, Factor: 2}},
			PromptMedian: 180, PromptSigma: 1.1, TailShare: .04, TailFrom: 1500, TailIndex: 1.6, Preamble: 256,
			OutputMean: 280, Context: 32_000, MaxOutput: 4096, Turns: 4, Hit: .85,
			Tenants: []string{"app", "web", "api", "partner"},
		},
		{
			Name: "code", PerSecond: 1.4, Gap: Weibull, Shape: .7, Day: work, Weekend: .25,
			PromptMedian: 1400, PromptSigma: .6, TailShare: .03, TailFrom: 4000, TailIndex: 2, Preamble: 128,
			OutputMean: 40, Context: 16_000, MaxOutput: 512, Turns: 6, Hit: .9,
			Tenants: []string{"editor", "review", "ci"},
		},
		{
			Name: "agent", PerSecond: .5, Gap: Weibull, Shape: .6, Day: work, Weekend: .5,
			PromptMedian: 900, PromptSigma: .9, TailShare: .08, TailFrom: 4000, TailIndex: 1.5, Preamble: 3072,
			OutputMean: 220, Context: 64_000, MaxOutput: 4096, Turns: 20, Hit: .92,
			Tenants: []string{"builder", "support", "research", "ops", "sales"},
		},
		{
			Name: "rag", PerSecond: .35, Gap: Gamma, Shape: .8, Day: work, Weekend: .3,
			Bursts:       []Burst{{Every: 24 * time.Hour, Offset: 9 * time.Hour, Length: 40 * time.Minute, Factor: 1.8}},
			PromptMedian: 3600, PromptSigma: .5, TailShare: .05, TailFrom: 8000, TailIndex: 1.8, Preamble: 512,
			OutputMean: 240, Context: 48_000, MaxOutput: 2048, Turns: 1.6, Hit: .5,
			Tenants: []string{"search", "helpdesk", "legal"},
		},
		{
			Name: "summarise", PerSecond: .15, Gap: Gamma, Shape: .4, Day: machine, Weekend: .9,
			Bursts:       []Burst{{Every: 2 * time.Hour, Offset: 5 * time.Minute, Length: 25 * time.Minute, Factor: 5}},
			PromptMedian: 5200, PromptSigma: .8, TailShare: .1, TailFrom: 12_000, TailIndex: 1.4, Preamble: 256,
			OutputMean: 420, Context: 64_000, MaxOutput: 4096, Turns: 1, Hit: 0,
			Tenants: []string{"nightly", "archive"},
		},
	}
}
