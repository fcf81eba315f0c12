package daemon

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
)

const (
	// trafficSpan is how much history the shape covers.
	trafficSpan = 24 * time.Hour
	// trafficEvery is the least time between two reads of the history, on the wall clock.
	trafficEvery = time.Minute
)

// traffic caches the shape of the last day's demand, per stored class and dimension.
type traffic struct {
	mu   sync.Mutex
	read time.Time // on the wall clock
	tick time.Time // of the pipeline
	last server.Traffic
}

// openTraffic shows the shape of demand in metrics, API and page.
func (d *Daemon) openTraffic() {
	d.server.Traffic = d.shapeOfTraffic
	d.exporter.Write(func(w io.Writer) { _, _ = w.Write(server.RenderTraffic(d.shapeOfTraffic())) })
}

// shapeOfTraffic reads the series of the day before the last tick, at most once per [trafficEvery] and tick. Cost: the
// samples of a day of each stored class and dimension.
func (d *Daemon) shapeOfTraffic() server.Traffic {
	tick := locked(d, &d.status.Tick)
	t := &d.traffic
	t.mu.Lock()
	defer t.mu.Unlock()
	if tick.IsZero() || tick.Equal(t.tick) || time.Since(t.read) < trafficEvery {
		return t.last
	}
	var shapes server.Traffic
	h := storage.History{Store: d.store}
	for i := range features.Dimensions {
		x := &features.Dimensions[i]
		if !x.Forecast {
			continue
		}
		err := h.Dimension(context.Background(), x, tick.Add(-trafficSpan), tick, func(key features.Key, values []float64) error {
			if s := features.TrafficOf(key, x.Name, values); s.Minutes > 0 {
				shapes = append(shapes, s)
			}
			return nil
		})
		if err != nil {
			d.log.Warn("the traffic shape cannot be read from the series", zap.Error(err))
			return t.last
		}
	}
	slices.SortStableFunc(shapes, func(a, b features.Traffic) int { return a.Key.Compare(b.Key) })
	t.read, t.tick, t.last = time.Now(), tick, shapes
	return shapes
}
