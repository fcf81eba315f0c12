package config

import (
	"cmp"
	"path/filepath"
	"time"

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
	"github.com/forewarm/forewarm/server/promapi"
	"github.com/forewarm/forewarm/server/rpc"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
)

// Config is the whole configuration: each section is the Config of the package that obeys it, except for the few that
// belong to the program itself.
type Config struct {
	Clock        pipeline.Clock `yaml:"clock"`
	Every        time.Duration  `yaml:"every"`         // spacing of forecasts and decisions, whole minutes
	DedupEntries int            `yaml:"dedup_entries"` // request ids remembered
	PrefixBlocks int            `yaml:"prefix_blocks"` // prompt blocks remembered per pool

	Features features.Config         `yaml:"features"`
	Classify features.ClassifyConfig `yaml:"classify"`
	Pools    []capacity.Config       `yaml:"pools"`
	// DefaultPool serves pools that are not listed, up to MaxPools in all; without it their telemetry is refused.
	DefaultPool *capacity.Config `yaml:"default_pool"`
	MaxPools    int              `yaml:"max_pools"`
	// Events are what is known to come: launches, campaigns, nightly batches.
	Events []forecaster.EventConfig `yaml:"events"`

	Decision  alerting.Config  `yaml:"decision"`
	NATS      jetstream.Config `yaml:"nats"`
	Listeners listener.Config  `yaml:"listeners"`
	Scrape    scrape.Config    `yaml:"scrape"`
	Sinks     sink.Config      `yaml:"sinks"`
	Storage   storage.Config   `yaml:"storage"`
	// RemoteWrite gets what is stored as well.
	RemoteWrite remote.WriteConfig `yaml:"remote_write"`
	// OTLP gets the daemon's own traces and metrics.
	OTLP remote.OTLPConfig `yaml:"otlp"`
	// Backfill is asked once, at the first start.
	Backfill remote.BackfillConfig `yaml:"backfill"`
	Report   Report                `yaml:"report"`
	Server   server.Config         `yaml:"server"`
	PromQL   promapi.Config        `yaml:"promql"`
	KEDA     rpc.Config            `yaml:"keda"`
	Dynamo   dynamo.Config         `yaml:"dynamo"`
	Log      Log                   `yaml:"log"`
}

// Log is what is logged to stderr, and how.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // console, json
}

// Report schedules the report on how well the forecasts did.
type Report struct {
	Schedule string `yaml:"schedule"` // cron: minute hour day-of-month month day-of-week; "" for never
	Timezone string `yaml:"timezone"` // IANA name, or Local
	Suggest  bool   `yaml:"suggest"`  // run the period again with other settings, and show what they would have cost

	// ReportConfig is where reports are delivered.
	sink.ReportConfig `yaml:",inline"`
}

// Default is what an empty file means.
func Default() *Config {
	p := pipeline.DefaultConfig()
	return &Config{
		Clock: p.Clock, Every: p.Every, DedupEntries: p.DedupEntries, PrefixBlocks: p.PrefixBlocks, MaxPools: p.MaxPools,
		Features:  features.DefaultConfig(),
		Decision:  p.Decision,
		NATS:      jetstream.DefaultConfig(),
		Listeners: listener.DefaultConfig(),
		Scrape:    scrape.DefaultConfig(),
		Storage:   storage.DefaultConfig(),
		OTLP:      remote.DefaultOTLP(),
		Backfill:  remote.DefaultBackfill(),
		Report:    Report{Schedule: "0 7 * * 1", Timezone: "UTC", Suggest: true},
		Server:    server.DefaultConfig(),
		PromQL:    promapi.DefaultConfig(),
		Log:       Log{Level: "info", Format: "console"},
	}
}

// MostPools is how many pools there can be.
func (c *Config) MostPools() int {
	if c.DefaultPool == nil {
		return len(c.Pools)
	}
	return max(len(c.Pools), c.MaxPools)
}

// StreamDir is where an embedded NATS server keeps its streams.
func (c *Config) StreamDir() string {
	return cmp.Or(c.NATS.Embedded.StoreDir, filepath.Join(c.Storage.Dir, "nats"))
}

// Reports says where reports go.
func (c *Config) Reports() sink.ReportConfig {
	r := c.Report.ReportConfig
	r.Dir = cmp.Or(r.Dir, filepath.Join(c.Storage.Dir, "reports"))
	return r
}

// BackfillSources are the configured ones, or else the total of the first pool.
func (c *Config) BackfillSources() []remote.Source {
	if len(c.Backfill.Sources) == 0 && len(c.Pools) > 0 {
		return []remote.Source{{Pool: c.Pools[0].Name}}
	}
	return c.Backfill.Sources
}
