package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
)

const (
	// storedClasses is how many of a pool's heaviest classes learn from the stored series. The others learn from the
	// stream.
	storedClasses = 16
	// learnStepMinutes is the step of learning. It takes well under a second, and the daemon can stop after each.
	learnStepMinutes = 6 * 60
)

// newStart is the start without a snapshot: from the newest decisions, the stream, and the stored series before the
// stream.
type newStart struct {
	first   uint64    // first sequence in the stream
	from    time.Time // when that message was stored
	decided time.Time // newest tick in the log of decisions
}

func (d *Daemon) noteRelearning(how string) {
	d.setStatus(func(s *server.Status) {
		s.Restored, s.Restore = false, fmt.Sprintf("no usable snapshot (%d not taken up): learning again, %s", d.snapshotsRefused, how)
	})
}

// relearn trains the models from the stored series before the stream. The pipeline continues from there. It does
// nothing on the event clock, because the age of the series is unknown. It stops when ctx ends; the next start repeats
// it.
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
	what := fmt.Sprintf("no usable snapshot (%d not taken up): learned again from %d minutes of stored series, and from the stream at sequence %d",
		d.snapshotsRefused, minutes, d.resumed.first)
	d.log.Info("the stored series are learned; the stream comes next", zap.Int("minutes", minutes), zap.Duration("took", time.Since(began)))
	d.setStatus(func(s *server.Status) { s.Restored, s.Restore = true, what })
}

// learnStored trains on the pools' totals and heaviest classes. minutes is the sum over all series.
func (d *Daemon) learnStored(ctx context.Context) (minutes int, err error) {
	history := storage.History{Store: d.store}
	to := d.resumed.from.Truncate(features.Minute)
	from := to.AddDate(0, 0, -remote.MaxDays)
	chosen, err := heaviestStored(ctx, history, from, to)
	if err != nil {
		return 0, err
	}
	series := 0
	for i := range features.Dimensions {
		dim := &features.Dimensions[i]
		if !dim.Forecast {
			continue
		}
		err := history.Dimension(ctx, dim, from, to, func(key features.Key, values []float64) error {
			if !chosen[key] {
				return nil
			}
			n, err := d.learnPast(ctx, &past{key, dim.Name, values}, from)
			minutes += n
			series++
			d.noteRelearning(fmt.Sprintf("%d of %d stored series are learned", series, 4*len(chosen)))
			return err
		})
		if err != nil {
			return minutes, err
		}
	}
	return minutes, nil
}

// learnPast trains on one series, and returns how many of its minutes are known.
func (d *Daemon) learnPast(ctx context.Context, p *past, from time.Time) (minutes int, err error) {
	for _, h := range p.histories(from) {
		if err := ctx.Err(); err != nil {
			return minutes, err
		}
		b := ingest.Batch{Histories: []ingest.History{h}}
		d.pipeline.Apply(&b, d.emit)
		if len(b.Refused) > 0 {
			return minutes, fmt.Errorf("%s %s: %s", p.key, p.dimension, b.Refused[0].Detail)
		}
		minutes += remote.Known(h.Values)
	}
	return minutes, nil
}

// heaviestStored returns the total and the heaviest classes of each pool, by stored tokens.
func heaviestStored(ctx context.Context, history storage.History, from, to time.Time) (map[features.Key]bool, error) {
	tokens := map[features.Key]float64{}
	for _, name := range []string{features.DimPrefill, features.DimDecode} {
		dim, _ := features.DimensionByName(name)
		err := history.Dimension(ctx, &dim, from, to, func(key features.Key, values []float64) error {
			for _, v := range values {
				if !math.IsNaN(v) {
					tokens[key] += v
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	keys := slices.SortedFunc(maps.Keys(tokens), func(a, b features.Key) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), cmp.Compare(tokens[b], tokens[a]), strings.Compare(a.Class, b.Class))
	})
	chosen, classes := map[features.Key]bool{}, map[string]int{}
	for _, key := range keys {
		switch {
		case key.Class == features.TotalClass:
			chosen[key] = true
		case key.Class != features.OverflowClass && classes[key.Pool] < storedClasses:
			chosen[key] = true
			classes[key.Pool]++
		}
	}
	return chosen, nil
}
