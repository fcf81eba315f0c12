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
	// because they are written when the request ends. Later ones are refused, and only their totals are kept
	// ([Window.Late]). If each request is one record at its end, Revise should exceed the longest request plus the
	// delay of its record; otherwise minutes settle without the tokens of long requests. Rounded up to whole minutes.
	Revise time.Duration `yaml:"revise"`
	// FutureBound refuses records with an event time further ahead of the clock.
	FutureBound time.Duration `yaml:"future_bound"`
	// MaxClasses is the number of classes that all pools may have together; further ones are counted as OverflowClass
	// of their pool. A class costs some 65 KiB.
	MaxClasses int `yaml:"max_classes"`
	// MaxTenants is the largest number of names in each Ranking of a class.
	MaxTenants int `yaml:"max_tenants"`
	// MaxReplicas bounds the replicas tracked per pool, ReplicaTTL forgets the silent ones.
	MaxReplicas int           `yaml:"max_replicas"`
	ReplicaTTL  time.Duration `yaml:"replica_ttl"`
	// StaleAfter is how long a pool may be silent before its telemetry counts as stale.
	StaleAfter time.Duration `yaml:"stale_after"`
	// ClassTTL removes a class without traffic for this long, so that old class names do not fill the cap.
	ClassTTL time.Duration `yaml:"class_ttl"`
	// Service by pool, for KV occupancy by Little's law; DefaultService is used for a pool without a row.
	Service        map[string]Service `yaml:"-"`
	DefaultService Service            `yaml:"-"`
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{
		Lateness: 10 * time.Second, Revise: 10 * time.Minute, FutureBound: 2 * time.Minute,
		MaxClasses: 10_000, MaxTenants: 10, MaxReplicas: 1024, ReplicaTTL: 3 * time.Minute,
		StaleAfter:     5 * time.Minute,
		ClassTTL:       8 * 24 * time.Hour,
		DefaultService: Service{PrefillTokensPerS: 8000, ITL: 25 * time.Millisecond},
	}
}

// complete sets every bound that is not positive to its default. Lateness and Revise may be zero.
func (c Config) complete() Config {
	d := DefaultConfig()
	orDefault(&c.MaxClasses, d.MaxClasses)
	orDefault(&c.MaxTenants, d.MaxTenants)
	orDefault(&c.MaxReplicas, d.MaxReplicas)
	orDefault(&c.ReplicaTTL, d.ReplicaTTL)
	orDefault(&c.ClassTTL, d.ClassTTL)
	c.DefaultService = c.DefaultService.or(d.DefaultService)
	c.Lateness, c.Revise, c.FutureBound = max(c.Lateness, 0), max(c.Revise, 0), max(c.FutureBound, 0)
	return c
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func (c *Config) service(pool string) Service { return c.Service[pool].or(c.DefaultService) }

// or fills the unset fields of s from d.
func (s Service) or(d Service) Service {
	if !(s.PrefillTokensPerS > 0) {
		s.PrefillTokensPerS = d.PrefillTokensPerS
	}
	orDefault(&s.ITL, d.ITL)
	return s
}
