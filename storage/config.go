package storage

import (
	"fmt"
	"time"
)

// Config says where history is kept and how much of it.
type Config struct {
	// Dir holds everything; one daemon owns it.
	Dir string `yaml:"dir"`
	// Retention is how long series are kept, in the time of the data.
	Retention time.Duration `yaml:"retention"`
	// MaxBytes bounds the compacted blocks of the series; the oldest go first. The write-ahead log and the newest hours
	// come on top.
	MaxBytes int64 `yaml:"max_bytes"`
	// SnapshotEvery is how often the state is saved: how much of the stream a restart replays at most. It is saved less
	// often where that would take more than 5 % of the time.
	SnapshotEvery time.Duration `yaml:"snapshot_every"`
	// MaxClasses is how many classes, over all pools, have series of their own: the heaviest by tokens. The others of a pool
	// are kept together, as features.OverflowClass. A class takes some 200 series, most of them of its forecasts.
	MaxClasses int `yaml:"max_classes"`
	// MaxSeries bounds the series written to within the last three hours. When it is reached new series are left out and
	// counted; decisions and pool totals are offered before classes.
	MaxSeries int `yaml:"max_series"`
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{
		Dir: "forewarm-data", Retention: 30 * 24 * time.Hour, MaxBytes: 4 << 30, SnapshotEvery: time.Minute,
		MaxClasses: 80, MaxSeries: 20_000,
	}
}

// Validate names the first key that is out of bounds, its value and the bound.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("dir is empty: name a directory that the daemon may write to")
	case c.Retention < 6*time.Hour:
		return fmt.Errorf("retention is %s: it must be at least 6h, and more than a week for weekly reports", c.Retention)
	case c.MaxBytes < 64<<20:
		return fmt.Errorf("max_bytes is %d: it must be at least %d (64 MiB)", c.MaxBytes, 64<<20)
	case c.SnapshotEvery < 100*time.Millisecond:
		return fmt.Errorf("snapshot_every is %s: it must be at least 100ms", c.SnapshotEvery)
	case c.MaxClasses < 1:
		return fmt.Errorf("max_classes is %d: it must be at least 1", c.MaxClasses)
	case c.MaxSeries < 100:
		return fmt.Errorf("max_series is %d: it must be at least 100", c.MaxSeries)
	}
	return nil
}
