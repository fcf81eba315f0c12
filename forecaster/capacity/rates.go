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

// Rates are the service rates of one replica. Zero means unknown.
type Rates struct {
	PrefillTokensPerS float64 // uncached prompt tokens, by a replica that does only prefill
	DecodeTokensPerS  float64 // output tokens, within the latency objective
	Source            Source
	Extrapolated      bool // beyond the observed loads
}

// SLO is the latency objective of requests, for 90 % of them; zero durations are no objective.
type SLO struct {
	TTFT time.Duration `yaml:"ttft"` // from arrival to the first token
	ITL  time.Duration `yaml:"itl"`  // from one output token to the next
}
