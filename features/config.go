package features

import "time"

// Service is the assumed speed of a replica for records without times. It turns token counts into time.
type Service struct {
	PrefillTokensPerS float64       // one request's prefill speed
	ITL               time.Duration // inter-token latency, time per output token
}

// Config bounds and parameterises the aggregation.
type Config struct {
	// Lateness is how long after its end a minute stays open for its first count: tick T is due when the clock reads
	// T + Lateness. Zero for traces in arrival order.
	Lateness time.Duration `yaml:"lateness"`
	// Revise is how long after its first count late records can still change a minute. Records are typically late
	// because they are written when the request ends. Later ones are refused. If each request is one record at its end,
	// Revise should exceed the longest request plus the delay of its record; otherwise minutes settle without the tokens
	// of long requests. Rounded up to whole minutes.
	Revise time.Duration `yaml:"revise"`
	// FutureBound refuses records with an event time further ahead of the clock.
	FutureBound time.Duration `yaml:"future_bound"`
	// MaxClasses is the number of classes that all pools may have together; further ones are counted as OverflowClass
	// of their pool. A class costs some 65 KiB.
	MaxClasses int `yaml:"max_classes"`
	// ReplicaTTL forgets silent replicas.
	ReplicaTTL time.Duration `yaml:"replica_ttl"`
	// StaleAfter is how long a pool may be silent before its telemetry counts as stale.
	StaleAfter time.Duration `yaml:"stale_after"`
	// ClassTTL removes a class without traffic for this long, so that old class names do not fill the cap. The pipeline
	// removes pools that are not listed after it.
	ClassTTL time.Duration `yaml:"class_ttl"`
	// Service by pool, for KV occupancy by Little's law; DefaultService is used for a pool without a row.
	Service map[string]Service `yaml:"-"`
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{
		Lateness: 10 * time.Second, Revise: 10 * time.Minute, FutureBound: 2 * time.Minute,
		MaxClasses: 10_000, ReplicaTTL: 3 * time.Minute,
		StaleAfter: 5 * time.Minute, ClassTTL: 8 * 24 * time.Hour,
	}
}

// DefaultService has the rates of a pool that states none.
var DefaultService = Service{PrefillTokensPerS: 8000, ITL: 25 * time.Millisecond}

// service has the default where the pool's rates are not set.
func (c *Config) service(pool string) Service {
	s := c.Service[pool]
	if !(s.PrefillTokensPerS > 0) {
		s.PrefillTokensPerS = DefaultService.PrefillTokensPerS
	}
	if s.ITL <= 0 {
		s.ITL = DefaultService.ITL
	}
	return s
}

// Counters count the accepted records and everything that was left out. They only grow.
type Counters struct {
	BadTimes uint64 // requests with contradictory times or a span of more than a day, treated as without times

	OverflowRecords uint64 // records pooled under OverflowClass
	ReplicasRefused uint64 // replica reports beyond the bound of a pool
}
