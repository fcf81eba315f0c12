package storage

import (
	"fmt"
	"time"
)

// Config is the place and size of the history.
type Config struct {
	// Dir holds all files; one daemon locks it.
	Dir string `yaml:"dir"`
	// Retention is how long series are kept, in event time.
	Retention time.Duration `yaml:"retention"`
	// MaxBytes bounds the compacted blocks of the series; the oldest are deleted first. The write-ahead log and the
	// newest hours are extra.
	MaxBytes int64 `yaml:"max_bytes"`
	// SnapshotEvery is the time between saves of the state. A restart replays at most this much of the stream. It is
	// longer if saving would take more than 5 % of the time.
	SnapshotEvery time.Duration `yaml:"snapshot_every"`
	// MaxSeries bounds the series of the newest hours, which are not compacted yet. At the bound new series are dropped
	// and counted; decisions and pool totals come before classes. A class has about 200 series, most of them forecasts.
	MaxSeries int `yaml:"max_series"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Dir: "forewarm-data", Retention: 30 * 24 * time.Hour, MaxBytes: 4 << 30, SnapshotEvery: time.Minute,
		MaxSeries: 50_000,
	}
}

// Check returns an error with the first key that is out of bounds, its value and the bound.
func (c *Config) Check() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("dir is empty: name a directory that the daemon may write to")
	case c.Retention < 6*time.Hour:
		return fmt.Errorf("retention is %s: it must be at least 6h, and more than a week for weekly reports", c.Retention)
	case c.MaxBytes < 64<<20:
		return fmt.Errorf("max_bytes is %d: it must be at least %d (64 MiB)", c.MaxBytes, 64<<20)
	case c.SnapshotEvery < 100*time.Millisecond:
		return fmt.Errorf("snapshot_every is %s: it must be at least 100ms", c.SnapshotEvery)
	case c.MaxSeries < 100:
		return fmt.Errorf("max_series is %d: it must be at least 100", c.MaxSeries)
	}
	return nil
}
