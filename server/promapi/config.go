package promapi

import (
	"fmt"
	"time"
)

// Config bounds what queries may cost.
type Config struct {
	Timeout    time.Duration `yaml:"timeout"`     // of a query, including the wait
	MaxSamples int           `yaml:"max_samples"` // that one query may hold in memory, 16 bytes each
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{Timeout: 20 * time.Second, MaxSamples: 5_000_000}
}

// Check is nil for a usable configuration; else it names the key, the value, the bound and what to do.
func (c Config) Check() error {
	switch {
	case c.Timeout < 100*time.Millisecond || c.Timeout > 25*time.Second:
		return fmt.Errorf("timeout: %s is out of 100ms…25s; the listener gives an answer 30s", c.Timeout)
	case c.MaxSamples < 1000 || c.MaxSamples > 100_000_000:
		return fmt.Errorf("max_samples: %d is out of 1000…100000000; each takes 16 bytes", c.MaxSamples)
	}
	return nil
}
