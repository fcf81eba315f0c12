package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/storage/remote"
)

// past is the history of a class, or of a pool's total, in one dimension: one value per minute.
type past struct {
	key       features.Key
	dimension string
	values    []float64
}

// readPast reads the demand history from the configured Prometheus at the first start. It stores the history in the
// telemetry stream, where the pipeline reads it like all telemetry. It reads all before it stores any, because
// histories must come before the first tick. It returns the sequence from which to read the stream, because older
// messages are in the history. On an error nothing was stored.
func (d *Daemon) readPast(ctx context.Context) (start uint64, err error) {
	c := &d.cfg.Backfill
	from, to := time.Now().UTC().Truncate(features.Minute).AddDate(0, 0, -c.Days), time.Now().UTC().Truncate(features.Minute)
	reader, err := remote.NewPast(*c)
	if err != nil {
		return 0, fmt.Errorf("backfill: %w", err)
	}
	sources := d.cfg.BackfillSources()
	if len(sources) == 0 {
		return 0, nil // they belong to other partitions
	}
	d.log.Info("first start: reading the demand history", zap.Int("days", c.Days), zap.Time("from", from))
	var pasts []past
	for _, s := range sources {
		found, err := d.readSource(ctx, reader, &s, from, int(to.Sub(from)/features.Minute))
		if err != nil {
			return 0, fmt.Errorf("backfill: %w; fix it, or remove backfill.url to start without history", err)
		}
		pasts = append(pasts, found...)
	}
	if pasts = withTotals(pasts); len(pasts) == 0 {
		return 0, fmt.Errorf("backfill: no query has any value in %d days: check backfill.sources[].match, or remove backfill.url to start without a past", c.Days)
	}
	stream, err := d.js.Stream(ctx, d.stream.Load().Config.Name)
	if err != nil {
		return 0, err
	}
	last := stream.CachedInfo().State.LastSeq
	if err = d.storePast(ctx, pasts, from); err != nil {
		return 0, fmt.Errorf("backfill: %w", err)
	}
	if n := stream.CachedInfo().State.Msgs; n > 0 {
		d.log.Info("the stream's telemetry from before the first start is skipped: the history has it", zap.Uint64("messages", n))
	}
	return last + 1, nil
}

// readSource runs all queries of a source. It logs and leaves out those without values.
func (d *Daemon) readSource(ctx context.Context, reader *remote.Past, s *remote.Source, from time.Time, minutes int) (found []past, err error) {
	key := features.Key{Pool: s.Pool, Class: cmp.Or(s.Class, features.TotalClass)}
	pool, _ := d.pipelineConfig.Pool(s.Pool)
	kvTokens := pool.KVTokens
	if kvTokens == 0 {
		if kvTokens, err = reader.KVCapacity(ctx, s, from.Add(time.Duration(minutes)*features.Minute)); err != nil {
			return nil, fmt.Errorf("KV capacity of %s: %w", key, err)
		}
	}
	for _, q := range s.Questions(kvTokens) {
		if q.Query == "" {
			d.log.Info("a query is not run", zap.String("of", key.String()), zap.String("query", q.Name), zap.String("because", q.Reason))
			continue
		}
		values, err := reader.Minutes(ctx, q.Query, from, minutes, nil)
		known := remote.Known(values)
		switch {
		case err != nil:
			return nil, fmt.Errorf("of %s: %s: %w", key, q.Name, err)
		case known == 0:
			d.log.Warn("a query has no value in the whole period", zap.String("of", key.String()), zap.String("query", q.Query))
		default:
			d.log.Info("read", zap.String("of", key.String()), zap.String("dimension", q.Name), zap.Int("minutes", known), zap.Int("of minutes", minutes))
			found = append(found, past{key: key, dimension: q.Name, values: values})
		}
	}
	return found, nil
}

// withTotals adds the total of each pool and dimension that has classes only: their sum, if all are known.
func withTotals(pasts []past) []past {
	type sum struct{ pool, dimension string }
	totals, at := map[sum]bool{}, map[sum]int{}
	for _, p := range pasts {
		if p.key.Class == features.TotalClass {
			totals[sum{p.key.Pool, p.dimension}] = true
		}
	}
	all := pasts
	for _, p := range pasts {
		s := sum{p.key.Pool, p.dimension}
		if totals[s] {
			continue
		}
		i, ok := at[s]
		if !ok {
			at[s] = len(all)
			all = append(all, past{features.Key{Pool: p.key.Pool, Class: features.TotalClass}, p.dimension, append([]float64(nil), p.values...)})
			continue
		}
		for m, v := range p.values {
			all[i].values[m] += v
		}
	}
	return all
}

// storePast publishes histories.
func (d *Daemon) storePast(ctx context.Context, pasts []past, from time.Time) error {
	for i := range pasts {
		for _, h := range pasts[i].histories(from) {
			m := &nats.Msg{Subject: ingest.HistorySubject(d.cfg.NATS.Inner(), h.Pool, h.Class), Data: codec.AppendHistory(nil, &h)}
			if _, err := d.js.PublishMsg(ctx, m, natsjs.WithMsgID(nuid.Next())); err != nil {
				return fmt.Errorf("publish to %s: %w", m.Subject, err)
			}
		}
	}
	return nil
}

// histories splits a past that begins at from into parts. Each part takes a moment to learn.
func (p *past) histories(from time.Time) (all []ingest.History) {
	at := 0
	for part := range slices.Chunk(p.values, learnStepMinutes) {
		if remote.Known(part) > 0 {
			all = append(all, ingest.History{
				Pool: p.key.Pool, Class: p.key.Class, Dimension: p.dimension, Start: from.Add(time.Duration(at) * features.Minute), Values: part,
			})
		}
		at += len(part)
	}
	return all
}
