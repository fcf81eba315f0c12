package capacity

import "time"

// Source says where service rates come from, in rising order of trust.
type Source string

// The sources of service rates.
const (
	Stated  Source = "stated"  // numbers in the configuration
	Learned Source = "learned" // regressed from telemetry
	Given   Source = "given"   // a benchmark's curve
)

// Rates is what one replica serves: of prompts as fast as it can, of the rest while its latency objective holds. Zero means unknown.
type Rates struct {
	PrefillTokensPerS float64 // prompt tokens that were not cached, by a replica that does nothing else
	DecodeTokensPerS  float64 // output tokens
	RequestsPerS      float64 // a limit on admissions, such as a gateway's
	MaxNumSeqs        int     // sequences that decode side by side
	ITL               time.Duration
	Source            Source
	Extrapolated      bool // beyond what was measured or seen
	Sustained         bool // PrefillTokensPerS was sustained in a benchmark within the objective, or is sent: all of it is capacity
	Bound             bool // DecodeTokensPerS was measured or learned with the slots there are, which bound it no further
}

// Decode is the decode capacity in tokens per second: the stated rate, and no more than MaxNumSeqs sequences yield at
// one token per ITL each, unless it was measured with these slots. Zero when neither is known.
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
