package daemon

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/ingest/scrape"
)

// scrapeSource is the producer name of scraped reports. Its clock is the daemon's.
const scrapeSource = "scrape"

// storeTimeout bounds storing one replica report in the stream.
const storeTimeout = 5 * time.Second

// openScraper prepares the scraper of engines; nil if none is configured.
func (d *Daemon) openScraper() (err error) {
	if len(d.cfg.Scrape.Jobs) == 0 {
		return nil
	}
	took := d.exporter.Histogram("forewarm_scrape_duration_seconds", "Time that a scrape of a target took.", []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10})
	d.scraper, err = scrape.New(d.cfg.Scrape, scrape.Deps{
		Publish: d.publishReplica, Log: d.log.Named("scrape"),
		Took: func(t time.Duration) { took(t.Seconds()) },
	})
	if err != nil {
		return err
	}
	d.sources = append(d.sources, d.scraper.Run)
	stats := d.scraper.Stats()
	d.exporter.Counter("forewarm_scrapes_total", "Scrapes of targets.", stats.Scrapes.Load)
	d.exporter.Counter("forewarm_scrape_reports_total", "Replica reports published.", stats.Published.Load)
	d.exporter.Counter("forewarm_scrape_unpublished_total", "Replica reports that the stream did not store.", stats.Unpublished.Load)
	d.exporter.Counter("forewarm_scrape_left_out_total", "Addresses that are not scraped because there are too many targets.", stats.LeftOut.Load)
	d.exporter.Gauge("forewarm_scrape_targets", "Targets that are scraped.", func() float64 { return float64(stats.Targets.Load()) })
	for _, reason := range scrape.Reasons {
		d.exporter.Counter("forewarm_scrape_failures_total{reason="+strconv.Quote(reason)+"}", "Scrapes that failed, by reason.", stats.Failures[reason].Load)
	}
	return nil
}

// publishReplica stores a report like that of an engine. It is applied when it is read back.
func (d *Daemon) publishReplica(ctx context.Context, r *ingest.Replica) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	m := nats.NewMsg(ingest.Subject(d.cfg.NATS.Inner(), ingest.ReplicaSubject, r.Pool, r.Name))
	m.Data = codec.Append(nil, r)
	m.Header.Set("Content-Type", codec.ContentTypeJSON)
	m.Header.Set(codec.HeaderSource, scrapeSource)
	_, err := d.js.PublishMsg(ctx, m)
	return err
}
