package forecaster

import (
	"fmt"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Backfill teaches past values of a pool's total in one dimension: at a cold start, or to close a gap before telemetry
// continues. Classes learn from telemetry only. values are the means of consecutive minutes from start on, in the
// dimension's unit; NaN if unknown, never negative. They must be newer than all that the series knows. A minute costs
// about 0.2 ms, as it does in telemetry.
func (f *Forecaster) Backfill(poolName, dimension string, start time.Time, values []float64) error {
	key := features.Key{Pool: poolName, Class: features.TotalClass}
	d := features.ForecastIndex(dimension)
	first := start.Unix() / 60
	switch {
	case d < 0:
		return fmt.Errorf("back-fill of %s: dimension %q is not forecast", key, dimension)
	case !start.Equal(start.Truncate(features.Minute)) || first < 0:
		return fmt.Errorf("back-fill of %s %s: start %s is not a whole minute since 1970", key, dimension, start.Format(time.RFC3339Nano))
	}
	p := f.pool(poolName)
	s := p.total.series[d]
	if s == nil {
		s = p.addSeries(p.total, d)
	}
	if first <= s.history.Newest {
		return fmt.Errorf("back-fill of %s %s: it overlaps the known minutes, which end at %s",
			key, dimension, time.Unix((s.history.Newest+1)*60, 0).UTC().Format(time.RFC3339))
	}
	for i, y := range values {
		minute := first + int64(i)
		s.push(minute, features.Complete(y/p.multiplier(minute))) // series learn demand without events
	}
	return nil
}
