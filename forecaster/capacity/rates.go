package capacity

import "time"

// Source is the origin of service rates, in rising order of trust.
type Source string

// The sources of service rates.
const (
	Stated  Source = "stated"  // numbers in the configuration
	Learned Source = "learned" // regressed from telemetry
	Given   Source = "given"   // a benchmark's curve
)

// Rates are the service rates of one replica: the maximum for prompts, the others within its latency objective. Zero
// means unknown.
type Rates struct {
	PrefillTokensPerS float64 // uncached prompt tokens, by a replica that does only prefill
	DecodeTokensPerS  float64 // output tokens
	RequestsPerS      float64 // a limit on admissions, such as a gateway's
	MaxNumSeqs        int     // sequences that decode at once
	ITL               time.Duration
	Source            Source
	Extrapolated      bool // beyond the observed loads
	Sustained         bool // PrefillTokensPerS was measured within the objective: all of it is capacity
	Bound             bool // DecodeTokensPerS was measured or learned with MaxNumSeqs, which does not limit it further
}

// Decode is the decode capacity in tokens per second: the stated rate, and at most MaxNumSeqs/ITL unless Bound. Zero
// when neither is known.
func (r Rates) Decode() float64 {
	if r.MaxNumSeqs <= 0 || r.ITL <= 0 || r.Bound {
		return r.DecodeTokensPerS
	}
	slots := float64(r.MaxNumSeqs) / r.ITL.Seconds()
	if r.DecodeTokensPerS <= 0 {
		return slots
	}
	return min(r.DecodeTokensPerS, slots)
}

// SLO is the latency objective of requests, for 90 % of them; zero durations are no objective.
type SLO struct {
	TTFT time.Duration `yaml:"ttft"` // from arrival to the first token
	ITL  time.Duration `yaml:"itl"`  // from one output token to the next
}
