package forecaster

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// maxBackfill bounds how much of the past is taken in at once: four weeks hold all that a series can remember.
const maxBackfill = 28 * 24 * time.Hour

// Backfill lets the series of a class, or of a pool's total (features.TotalClass), in one dimension learn from values of
// consecutive minutes from start on, as if they had come in their time: in the dimension's unit, averaged over each
// minute, NaN where not known. It shortens a cold start, or closes a gap before telemetry goes on.
//
// Values must lie after all that the series knows; classes and the total are filled in each for itself. It costs as much
// as the minutes would have, some 0.2 ms each.
func (f *Forecaster) Backfill(key features.Key, dimension string, start time.Time, values []float64) error {
	d := slices.IndexFunc(dimensions, func(d features.Dimension) bool { return d.Name == dimension })
	first := start.Unix() / 60
	switch {
	case key.Pool == "" || key.Class == "":
		return fmt.Errorf("back-fill of %s: name a pool and a class", key)
	case key.Class == features.OverflowClass:
		return fmt.Errorf("back-fill of %s: which classes it holds changes; name a class or the total", key)
	case d < 0:
		return fmt.Errorf("back-fill of %s: %q is no dimension that is forecast", key, dimension)
	case !start.Equal(start.Truncate(features.Minute)) || first < 0:
		return fmt.Errorf("back-fill of %s %s: start %s is not a whole minute since 1970", key, dimension, start.Format(time.RFC3339Nano))
	case time.Duration(len(values)) > maxBackfill/features.Minute:
		return fmt.Errorf("back-fill of %s %s: %d minutes are too many; give the newest %d", key, dimension, len(values), maxBackfill/features.Minute)
	}
	for i, y := range values {
		if y < 0 || math.IsInf(y, 0) {
			return fmt.Errorf("back-fill of %s %s: %g in minute %s is no demand", key, dimension, y, start.Add(time.Duration(i)*features.Minute).Format(time.RFC3339))
		}
	}
	if len(values) == 0 {
		return nil
	}
	p := f.pool(key.Pool)
	s, err := p.toFill(key, d, first, f.settleMinutes())
	if err != nil {
		return fmt.Errorf("back-fill of %s %s: %w", key, dimension, err)
	}
	for i, y := range values {
		s.push(first+int64(i), exactly(y))
	}
	if key.Class != features.TotalClass { // as if the class had been heard of until then
		c := p.class(key)
		c.shape.Newest = max(c.shape.Newest, first+int64(len(values))-1)
	}
	return nil
}

// toFill finds or adds the series to fill in from a minute on.
func (p *pool) toFill(key features.Key, d int, first int64, settle int) (*series, error) {
	if key.Class == features.TotalClass {
		if p.total[d] == nil {
			p.total[d] = p.newSeries(key, settle)
		}
		return p.total[d], after(p.total[d], first)
	}
	if p.find(key.Class) == nil && p.of.classes() >= p.of.cfg.MaxClasses {
		return nil, errors.New("as many classes have forecasts of their own as may")
	}
	c := p.class(key)
	if c.series[d] == nil {
		c.series[d] = p.newSeries(key, settle)
	}
	return c.series[d], after(c.series[d], first)
}

// classes is how many all pools have.
func (f *Forecaster) classes() (n int) {
	for _, p := range f.pools {
		n += len(p.classes)
	}
	return n
}

// after is an error unless a series knows nothing of minute first and those that follow.
func after(s *series, first int64) error {
	if h := s.history; h.Known > 0 && first <= h.Newest {
		return fmt.Errorf("it overlaps what is known up to %s", time.Unix((h.Newest+1)*60, 0).UTC().Format(time.RFC3339))
	}
	return nil
}
