package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
)

// readPast reads the demand history of pools from the configured Prometheus at the first start, all before it stores any
// in the telemetry stream, because histories must come before the first tick. It returns the sequence from which to read
// the stream: older messages are in the history. If not all could be stored, the next start stores all again.
func (d *Daemon) readPast(ctx context.Context) (start uint64, err error) {
	c, to := &d.cfg.Backfill, time.Now().UTC().Truncate(features.Minute)
	from := to.AddDate(0, 0, -c.Days)
	reader, err := remote.NewPast(*c)
	if err != nil {
		return 0, fmt.Errorf("backfill: %w", err)
	}
	d.log.Info("first start: reading the demand history", zap.Int("days", c.Days), zap.Time("from", from))
	var all []ingest.History
	for _, s := range d.cfg.BackfillSources() {
		found, err := d.readSource(ctx, reader, &s, from, int(to.Sub(from)/features.Minute))
		if err != nil {
			fix := remote.Fix("backfill.url", "backfill.sources[].queries or match", "the credentials below backfill")
			return 0, fmt.Errorf("backfill: %w; %s, or remove backfill.url to start without history", err, fix)
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("backfill: no query has any value in %d days: check backfill.sources[].match, or remove backfill.url to start without a past", c.Days)
	}
	stream, err := d.js.Stream(ctx, d.stream.Load().Config.Name)
	if err != nil {
		return 0, err
	}
	for i := range all {
		if err := d.telemetry.Store(ctx, &ingest.Batch{Histories: all[i : i+1]}); err != nil {
			return 0, fmt.Errorf("backfill: %w", err)
		}
	}
	have := stream.CachedInfo().State
	if have.Msgs > 0 {
		d.log.Info("the stream's telemetry from before the first start is skipped: the history has it", zap.Uint64("messages", have.Msgs))
	}
	return have.LastSeq + 1, nil
}

// readSource runs all queries of a source. It logs what each has, and warns of those without values.
func (d *Daemon) readSource(ctx context.Context, reader *remote.Past, s *remote.Source, from time.Time, minutes int) (found []ingest.History, err error) {
	pool, _ := d.pipelineConfig.Pool(s.Pool)
	kvTokens := pool.KVTokens
	if kvTokens == 0 {
		if kvTokens, err = reader.KVCapacity(ctx, s, from.Add(time.Duration(minutes)*features.Minute)); err != nil {
			return nil, fmt.Errorf("KV capacity of %s: %w", s.Pool, err)
		}
	}
	questions := s.Questions(kvTokens)
	if err := reader.Read(ctx, questions, from, minutes, nil); err != nil {
		return nil, fmt.Errorf("of %s: %w", s.Pool, err)
	}
	for _, q := range questions {
		level := zap.InfoLevel
		if q.Query != "" && q.Values == nil {
			level = zap.WarnLevel
		}
		d.log.Log(level, "read", zap.String("of", s.Pool), zap.String("query", q.Query), zap.Int("minutes with a value", remote.Known(q.Values)),
			zap.Int("of minutes", minutes), zap.String("note", q.Note))
		found = append(found, historiesOf(s.Pool, q.Name, q.Values, from)...)
	}
	return found, nil
}

// learnStepMinutes is the length of the parts of a past. Learning one takes some 15 ms.
const learnStepMinutes = 6 * 60

// historiesOf splits the past of a pool in one dimension, one value per minute, into parts. It leaves out parts without
// any value.
func historiesOf(pool, dimension string, values []float64, from time.Time) (all []ingest.History) {
	for part := range slices.Chunk(values, learnStepMinutes) {
		if remote.Known(part) > 0 {
			all = append(all, ingest.History{Pool: pool, Class: features.TotalClass, Dimension: dimension, Start: from, Values: part})
		}
		from = from.Add(learnStepMinutes * features.Minute)
	}
	return all
}

// noteRelearning shows how far a start without a snapshot has come; over means that it is done.
func (d *Daemon) noteRelearning(how string, over bool) {
	d.setStatus(func(s *server.Status) {
		s.Restored, s.Restore = over, fmt.Sprintf("no usable snapshot (%d not taken up): %s", d.snapshotsRefused, how)
	})
}

// relearn trains the models of whole pools from the stored series before the stream; those of classes learn from the
// stream only. It does nothing on the event clock, because the age of the series is unknown. It stops when ctx ends; the
// next start repeats it.
func (d *Daemon) relearn(ctx context.Context) {
	if !d.resumed {
		return
	}
	began, minutes, have := time.Now(), 0, d.stream.Load().State
	to := began.Truncate(features.Minute)
	if have.Msgs > 0 {
		to = have.FirstTime.Truncate(features.Minute)
	}
	from := to.AddDate(0, 0, -remote.MaxDays)
	if d.cfg.Clock != pipeline.WallClock {
		from = to
	}
	err := (storage.History{Series: d.store}).Observed(ctx, from, to, func(key features.Key, dimension string, values []float64) error {
		if key.Class != features.TotalClass || features.ForecastIndex(dimension) < 0 {
			return nil
		}
		for _, h := range historiesOf(key.Pool, dimension, values, from) {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := ingest.Batch{Histories: []ingest.History{h}}
			d.pipeline.Apply(&b, d.emit)
			if len(b.Refused) > 0 {
				return fmt.Errorf("%s %s: %s", key, dimension, b.Refused[0].Detail)
			}
			minutes += remote.Known(h.Values)
		}
		d.noteRelearning(fmt.Sprintf("learning again, %d minutes of stored series are learned", minutes), false)
		return nil
	})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.log.Warn("not all stored series could be learned", zap.Error(err))
	}
	d.log.Info("the stored series are learned; the stream comes next", zap.Int("minutes", minutes), zap.Duration("took", time.Since(began)))
	d.noteRelearning(fmt.Sprintf("learned again from %d minutes of stored series, and from the stream at sequence %d", minutes, have.FirstSeq), true)
}
