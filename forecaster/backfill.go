package forecaster

import (
	"fmt"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Backfill teaches a series past values: of a class, or of a pool's total (features.TotalClass), in one dimension.
// values are of consecutive minutes from start on, in the dimension's unit, averaged over each minute, NaN where not
// known, none negative. It shortens a cold start, or closes a gap before telemetry continues.
//
// Values must be newer than all that the series knows. The total is not computed from classes: fill it in too. It costs
// what the minutes would have cost, about 0.2 ms each.
func (f *Forecaster) Backfill(key features.Key, dimension string, start time.Time, values []float64) error {
	d := features.ForecastIndex(dimension)
	first := start.Unix() / 60
	switch {
	case key.Class == features.OverflowClass:
		return fmt.Errorf("back-fill of %s: its classes change over time; name a class or the total", key)
	case d < 0:
		return fmt.Errorf("back-fill of %s: dimension %q is not forecast", key, dimension)
	case !start.Equal(start.Truncate(features.Minute)) || first < 0:
		return fmt.Errorf("back-fill of %s %s: start %s is not a whole minute since 1970", key, dimension, start.Format(time.RFC3339Nano))
	}
	p := f.pool(key.Pool)
	classes := 0
	for _, p := range f.pools {
		classes += len(p.classes)
	}
	if _, ok := p.search(key.Class); !ok && key.Class != features.TotalClass && classes >= f.cfg.MaxClasses {
		return fmt.Errorf("back-fill of %s %s: the maximum of %d classes is reached", key, dimension, f.cfg.MaxClasses)
	}
	c := p.class(key.Class)
	s := c.series[d]
	if s == nil {
		s = p.addSeries(c, d)
	}
	if first <= s.history.Newest {
		return fmt.Errorf("back-fill of %s %s: it overlaps the known minutes, which end at %s",
			key, dimension, time.Unix((s.history.Newest+1)*60, 0).UTC().Format(time.RFC3339))
	}
	for i, y := range values {
		s.push(first+int64(i), features.Complete(y))
	}
	c.Shape.Newest = max(c.Shape.Newest, s.history.Newest) // the class was last seen at the end of the back-fill
	return nil
}
