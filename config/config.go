package config

import (
	"cmp"
	"path/filepath"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/ingest/listener"
	"github.com/forewarm/forewarm/ingest/scrape"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/server/dynamo"
	"github.com/forewarm/forewarm/server/rpc"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
)

// Config is the whole configuration. Most sections are the Config of the package that uses them.
type Config struct {
	Clock pipeline.Clock `yaml:"clock"`

	Features features.Config         `yaml:"features"`
	Classify features.ClassifyConfig `yaml:"classify"`
	Pools    []capacity.Config       `yaml:"pools"`
	// DefaultPool serves pools that are not listed, up to MaxPools in all. Without it their telemetry is refused.
	DefaultPool *capacity.Config `yaml:"default_pool"`
	MaxPools    int              `yaml:"max_pools"`
	// Events are expected changes: launches, campaigns, nightly batches.
	Events []forecaster.EventConfig `yaml:"events"`

	Decision  alerting.Config  `yaml:"decision"`
	NATS      jetstream.Config `yaml:"nats"`
	Listeners listener.Config  `yaml:"listeners"`
	Scrape    scrape.Config    `yaml:"scrape"`
	Sinks     sink.Config      `yaml:"sinks"`
	Storage   storage.Config   `yaml:"storage"`
	// Backfill is queried once, at the first start.
	Backfill remote.BackfillConfig `yaml:"backfill"`
	Report   Report                `yaml:"report"`
	Server   server.Config         `yaml:"server"`
	KEDA     rpc.Config            `yaml:"keda"`
	Dynamo   dynamo.Config         `yaml:"dynamo"`
	Log      Log                   `yaml:"log"`

	decoder *decoder        // that read it; nil for a default
	built   pipeline.Config // by Parse; see Pipeline
}

// Log configures the log on stderr.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // console, json
}

// Report schedules the report on the quality of forecasts.
type Report struct {
	Schedule string `yaml:"schedule"` // cron: minute hour day-of-month month day-of-week; "" for never
	Timezone string `yaml:"timezone"` // IANA name, or Local
	Dir      string `yaml:"dir"`      // "" is reports/ in the storage directory
}

// Default is the configuration of an empty file.
func Default() *Config {
	p := pipeline.DefaultConfig()
	return &Config{
		Clock: p.Clock, MaxPools: p.MaxPools,
		Features:  features.DefaultConfig(),
		Decision:  p.Decision,
		NATS:      jetstream.DefaultConfig(),
		Listeners: listener.DefaultConfig(),
		Scrape:    scrape.DefaultConfig(),
		Storage:   storage.DefaultConfig(),
		Backfill:  remote.DefaultBackfill(),
		Report:    Report{Schedule: "0 7 * * 1", Timezone: "UTC"},
		Server:    server.DefaultConfig(),
		Log:       Log{Level: "info", Format: "console"},
	}
}

// StreamDir is the directory of an embedded NATS server's streams.
func (c *Config) StreamDir() string {
	return cmp.Or(c.NATS.Embedded.StoreDir, filepath.Join(c.Storage.Dir, "nats"))
}

// ReportDir is the directory of reports.
func (c *Config) ReportDir() string {
	return cmp.Or(c.Report.Dir, filepath.Join(c.Storage.Dir, "reports"))
}

// BackfillSources returns the configured sources, or the total of the only pool.
func (c *Config) BackfillSources() []remote.Source {
	if len(c.Backfill.Sources) == 0 && len(c.Pools) > 0 {
		return []remote.Source{{Pool: c.Pools[0].Name}}
	}
	return c.Backfill.Sources
}
