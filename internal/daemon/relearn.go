package daemon

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
)

// noteRelearning shows how far a start without a snapshot has come; over means that it is done.
func (d *Daemon) noteRelearning(how string, over bool) {
	d.setStatus(func(s *server.Status) {
		s.Restored, s.Restore = over, fmt.Sprintf("no usable snapshot (%d not taken up): %s", d.snapshotsRefused, how)
	})
}

// relearn trains the models of whole pools from the stored series before the stream; those of classes learn from the
// stream only. The pipeline continues from there. It does nothing on the event clock, because the age of the series is
// unknown. It stops when ctx ends; the next start repeats it.
func (d *Daemon) relearn(ctx context.Context) {
	if d.resumed == nil {
		return
	}
	began, minutes := time.Now(), 0
	if d.cfg.Clock == pipeline.WallClock {
		var err error
		if minutes, err = d.learnStored(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			d.log.Warn("not all stored series could be learned", zap.Error(err))
		}
	}
	d.log.Info("the stored series are learned; the stream comes next", zap.Int("minutes", minutes), zap.Duration("took", time.Since(began)))
	d.noteRelearning(fmt.Sprintf("learned again from %d minutes of stored series, and from the stream at sequence %d", minutes, d.resumed.first), true)
}

// learnStored trains on the pools' totals. minutes is the sum over all series.
func (d *Daemon) learnStored(ctx context.Context) (minutes int, err error) {
	to := d.resumed.from.Truncate(features.Minute)
	from := to.AddDate(0, 0, -remote.MaxDays)
	for i := range features.Dimensions {
		dim := &features.Dimensions[i]
		if !dim.Forecast {
			continue
		}
		err := (storage.History{Store: d.store}).Dimension(ctx, dim, from, to, func(key features.Key, values []float64) error {
			if key.Class != features.TotalClass {
				return nil
			}
			for _, h := range historiesOf(key.Pool, dim.Name, values, from) {
				if err := ctx.Err(); err != nil {
					return err
				}
				b := ingest.Batch{Histories: []ingest.History{h}}
				d.pipeline.Apply(&b, d.emit)
				if len(b.Refused) > 0 {
					return fmt.Errorf("%s %s: %s", key, dim.Name, b.Refused[0].Detail)
				}
				minutes += remote.Known(h.Values)
			}
			d.noteRelearning(fmt.Sprintf("learning again, %d minutes of stored series are learned", minutes), false)
			return nil
		})
		if err != nil {
			return minutes, err
		}
	}
	return minutes, nil
}
