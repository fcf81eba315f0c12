package forecaster

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// maxBackfill bounds one back-fill: four weeks hold all that a series can remember.
const maxBackfill = 28 * 24 * time.Hour

// Backfill teaches a series past values: of a class, or of a pool's total (features.TotalClass), in one dimension.
// values are of consecutive minutes from start on, in the dimension's unit, averaged over each minute, NaN where not
// known. It shortens a cold start, or closes a gap before telemetry continues.
//
// Values must be newer than all that the series knows. The total is not computed from classes: fill it in too. It costs
// what the minutes would have cost, about 0.2 ms each.
func (f *Forecaster) Backfill(key features.Key, dimension string, start time.Time, values []float64) error {
	d := slices.IndexFunc(dimensions, func(d features.Dimension) bool { return d.Name == dimension })
	first := start.Unix() / 60
	switch {
	case key.Pool == "" || key.Class == "":
		return fmt.Errorf("back-fill of %s: name a pool and a class", key)
	case key.Class == features.OverflowClass:
		return fmt.Errorf("back-fill of %s: its classes change over time; name a class or the total", key)
	case d < 0:
		return fmt.Errorf("back-fill of %s: dimension %q is not forecast", key, dimension)
	case !start.Equal(start.Truncate(features.Minute)) || first < 0:
		return fmt.Errorf("back-fill of %s %s: start %s is not a whole minute since 1970", key, dimension, start.Format(time.RFC3339Nano))
	case time.Duration(len(values)) > maxBackfill/features.Minute:
		return fmt.Errorf("back-fill of %s %s: %d minutes are too many; give the newest %d", key, dimension, len(values), maxBackfill/features.Minute)
	}
	for i, y := range values {
		if y < 0 || math.IsInf(y, 0) {
			return fmt.Errorf("back-fill of %s %s: %g in minute %s is not a demand", key, dimension, y, start.Add(time.Duration(i)*features.Minute).Format(time.RFC3339))
		}
	}
	if len(values) == 0 {
		return nil
	}
	p := f.pool(key.Pool)
	s, err := p.seriesToFill(key, d, first, f.settleMinutes())
	if err != nil {
		return fmt.Errorf("back-fill of %s %s: %w", key, dimension, err)
	}
	for i, y := range values {
		s.push(first+int64(i), exact(y))
	}
	if key.Class != features.TotalClass { // the class was last seen at the end of the back-fill
		c := p.class(key)
		c.shape.Newest = max(c.shape.Newest, first+int64(len(values))-1)
	}
	return nil
}

// seriesToFill finds or adds the series to fill in from a minute on.
func (p *pool) seriesToFill(key features.Key, d int, first int64, settle int) (*series, error) {
	if key.Class == features.TotalClass {
		if p.total[d] == nil {
			p.total[d] = p.newSeries(key, settle)
		}
		return p.total[d], checkNewer(p.total[d], first)
	}
	if p.find(key.Class) == nil && p.of.classes() >= p.of.cfg.MaxClasses {
		return nil, fmt.Errorf("the maximum of %d classes is reached", p.of.cfg.MaxClasses)
	}
	c := p.class(key)
	if c.series[d] == nil {
		c.series[d] = p.newSeries(key, settle)
	}
	return c.series[d], checkNewer(c.series[d], first)
}

// classes is the number of classes of all pools.
func (f *Forecaster) classes() (n int) {
	for _, p := range f.pools {
		n += len(p.classes)
	}
	return n
}

// checkNewer returns an error if the series knows minute first or a later one.
func checkNewer(s *series, first int64) error {
	if h := s.history; h.Known > 0 && first <= h.Newest {
		return fmt.Errorf("it overlaps the known minutes, which end at %s", time.Unix((h.Newest+1)*60, 0).UTC().Format(time.RFC3339))
	}
	return nil
}
