package report

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// MaxDays bounds a report's period, and with it its memory.
const MaxDays = 93

const (
	lookback        = 2 * time.Hour // before the period: demand, forecasts and decisions reach into it
	headlineMinutes = 15            // the horizon of summaries, charts and episodes
)

// Reconcile compares forecasts and decisions of a span, cut to whole minutes, with outcomes. Demand must have settled:
// the end must be older than features.revise.
func Reconcile(ctx context.Context, h History, s Span) (*Report, error) {
	if err := s.cut(); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	b := &builder{grid: grid{base: s.From.Add(-lookback), from: s.From, to: s.To}, pools: map[string]*pool{}}
	b.first, b.end = b.index(s.From), b.index(s.To)
	if err := b.read(ctx, h); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	r := &Report{From: s.From, To: s.To, Timezone: s.Zone.String(), Zone: s.Zone, Pools: []Pool{}}
	for _, name := range slices.Sorted(maps.Keys(b.pools)) {
		p := b.pools[name]
		p.setMinutes()
		out := Pool{Pool: name, Data: p.data(), Accuracy: p.accuracy}
		if out.Data.Observed == 0 && out.Data.Decided == 0 && len(p.accuracy) == 0 {
			continue
		}
		out.Saturation, out.Decisions, out.Timeline = p.saturation(), p.decisions(), p.timeline()
		out.Totals, out.Contradicts = p.totals(), p.basis.Contradicts
		r.Pools = append(r.Pools, out)
	}
	r.summarise()
	return r, nil
}

// grid is the minutes of the period and of the time before it, counted from base.
type grid struct {
	base, from, to time.Time
	first, end     int // minutes of the period, [first, end)
}

// index of the minute that holds t, which is not before base.
func (g *grid) index(t time.Time) int { return int(t.Sub(g.base) / features.Minute) }

type builder struct {
	grid
	pools   map[string]*pool
	scoring *scoring
}

// pool is what the history has of one pool; [Pool] is the report on it.
type pool struct {
	*grid
	demand     map[series][]float64   // by minute from base
	forecasts  map[quantile][]float64 // of the total, headlineMinutes before each minute; NaN if unknown
	accuracy   []Accuracy             // the total first, then classes
	ticks      []tick                 // by time
	mode       alerting.Mode          // of the newest decision
	decodeOnly bool                   // the newest decision has prefill replicas, which are left out
	basis      alerting.Basis
	minutes    []poolMinute // from base; see setMinutes
}

type series struct{ class, dimension string }

// quantile names a stored quantile of forecasts; level is an index of forecaster.Levels.
type quantile struct {
	dimension string
	level     int
}

func (b *builder) pool(name string) *pool {
	p := b.pools[name]
	if p == nil {
		p = &pool{grid: &b.grid, demand: map[series][]float64{}, forecasts: map[quantile][]float64{}, accuracy: []Accuracy{}}
		b.pools[name] = p
	}
	return p
}

func (b *builder) read(ctx context.Context, h History) error {
	if err := h.Observed(ctx, b.base, b.to, func(key features.Key, dimension string, values []float64) error {
		b.pool(key.Pool).demand[series{key.Class, dimension}] = slices.Clone(values)
		return nil
	}); err != nil {
		return err
	}
	if err := h.Decisions(ctx, b.base, b.to, func(d *alerting.Decision) error {
		p := b.pool(d.Pool)
		p.ticks = append(p.ticks, newTick(d))
		if !d.Tick.Before(b.from) {
			p.mode, p.decodeOnly = d.Mode, d.ByRole != nil
		}
		if d.Basis != nil {
			p.basis = *d.Basis
		}
		return nil
	}); err != nil {
		return err
	}
	err := h.Forecasts(ctx, b.base, b.to, func(f *forecaster.Forecast) error {
		b.score(f)
		b.pool(f.Pool).addHeadline(f)
		return nil
	})
	b.endSeries()
	return err
}

// addHeadline keeps the headline of a forecast of the total.
func (p *pool) addHeadline(f *forecaster.Forecast) {
	m := p.index(f.Origin) + headlineMinutes - 1
	if f.Class != features.TotalClass || m < p.first || m >= p.end {
		return
	}
	for _, level := range []int{forecaster.L10, forecaster.L50, forecaster.L90} {
		key := quantile{f.Dimension, level}
		if p.forecasts[key] == nil {
			p.forecasts[key] = slices.Repeat([]float64{math.NaN()}, p.end)
		}
		p.forecasts[key][m] = f.Minute[headlineMinutes-1][level]
	}
}

// at is a value of a minute; NaN if unknown.
func at(values []float64, minute int) float64 {
	if minute < 0 || minute >= len(values) {
		return math.NaN()
	}
	return values[minute]
}

func (p *pool) data() Data {
	d := Data{Minutes: p.end - p.first}
	for m := p.first; m < p.end; m++ {
		for _, values := range p.demand {
			if !math.IsNaN(at(values, m)) {
				d.Observed++
				break
			}
		}
		if p.minutes[m].tick != &noDecision {
			d.Decided++
		}
	}
	return d
}
