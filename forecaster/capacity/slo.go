package capacity

import "time"

// SLO is the latency objective of requests; zero durations are no objective.
type SLO struct {
	TTFT time.Duration `yaml:"ttft"` // from arrival to the first token
	ITL  time.Duration `yaml:"itl"`  // from one output token to the next
	// Percentile of requests for which both must hold: 50, 90 or 99; 0 means 90.
	Percentile int `yaml:"percentile"`
}

// Percentiles of a latency in seconds; 0 is unknown.
type Percentiles struct{ P50, P90, P99 float64 }

// at is the given percentile, or the next higher known one, or the next lower; 0 when none is known.
func (p Percentiles) at(percentile int) float64 {
	order := [...]float64{p.P90, p.P99, p.P50}
	switch percentile {
	case 50:
		order = [...]float64{p.P50, p.P90, p.P99}
	case 99:
		order = [...]float64{p.P99, p.P90, p.P50}
	}
	for _, v := range order {
		if v > 0 {
			return v
		}
	}
	return 0
}
