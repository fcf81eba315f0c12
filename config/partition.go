package config

import (
	"slices"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest/scrape"
	"github.com/forewarm/forewarm/server/dynamo"
	"github.com/forewarm/forewarm/storage/remote"
)

// KeepOwn removes settings for pools of other partitions. All partitions have the same file.
func (c *Config) KeepOwn() {
	if !c.NATS.Partitioned() {
		return
	}
	other := func(pool string) bool { return pool != "" && !c.NATS.Owns(pool) }
	c.Pools = slices.DeleteFunc(c.Pools, func(p capacity.Config) bool { return other(p.Name) })
	c.Events = slices.DeleteFunc(c.Events, func(e forecaster.EventConfig) bool { return other(e.Pool) })
	c.Scrape.Jobs = slices.DeleteFunc(c.Scrape.Jobs, func(j scrape.Job) bool { return other(j.Pool) })
	c.Backfill.Sources = slices.DeleteFunc(c.Backfill.Sources, func(s remote.Source) bool { return other(s.Pool) })
	c.Dynamo.Planners = slices.DeleteFunc(c.Dynamo.Planners, func(p dynamo.Planner) bool { return other(p.Pool) })
}
