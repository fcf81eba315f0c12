package backtest

import (
	"embed"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

//go:embed templates
var templates embed.FS

var reportTemplate = template.Must(template.New("report.html").Funcs(template.FuncMap{
	"base":    filepath.Base,
	"setting": func(knob string) string { return strings.ReplaceAll(knob, ",", ", ") },
	"percent": func(x any) string { return cellText(x, 100, "%.2f %%") },
	"share":   func(x any) string { return cellText(x, 100, "%.0f %%") },
	"target":  func(x any) string { return cellText(x, 100, "%g %%") },
	"whole":   func(x any) string { return cellText(x, 1, "%.0f") },
	"ratio":   func(x any) string { return cellText(x, 1, "%.2f") },
	"minutes": func(x any) string { return cellText(x, 1./60, "%.0f min") },
}).ParseFS(templates, "templates/report.html"))

// cellText formats a number for a table, – if unknown.
func cellText(x any, times float64, format string) string {
	var v float64
	switch x := x.(type) {
	case Number:
		v = float64(x)
	case float64:
		v = x
	case int:
		v = float64(x)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return fmt.Sprintf(format, times*v)
}

// page is the content of the report.
type page struct {
	*Summary
	Title, Scored, Sizing string
	Shown                 []Result // one row per policy: the tuned or the default setting
	Recorded, Own         *Result  // if the replicas were recorded
	Forecast              template.HTML
	Tracks                []drawnTrack
}

type drawnTrack struct {
	Policy, Knob string
	SVG          template.HTML
}

// writeReport writes a self-contained, printable page without scripts.
func (r *runner) writeReport(path string, s *Summary) error {
	p := page{
		Summary: s, Title: r.name(),
		Scored: fmt.Sprintf("%s to %s UTC", r.scores.from.UTC().Format("2006-01-02 15:04"), r.scoredUntil().UTC().Format("2006-01-02 15:04")),
		Sizing: r.sizingText(),
	}
	shown := r.shown(s)
	for _, c := range shown {
		o := c.outcome()
		p.Shown = append(p.Shown, r.row(&o, c))
	}
	for i := range p.Shown {
		switch p.Shown[i].Policy {
		case RecordedPolicy:
			p.Recorded = &p.Shown[i]
		case ForewarmPolicy:
			p.Own = &p.Shown[i]
		}
	}
	if len(r.plot.fan) > 0 {
		p.Forecast = template.HTML(r.plot.draw(r.demand).String())
	}
	for _, c := range shown {
		p.Tracks = append(p.Tracks, drawnTrack{c.spec.Name, c.spec.knob(c.set), c.track.draw()})
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := reportTemplate.Execute(file, &p); err != nil {
		_ = file.Close() // the first error is more useful
		return err
	}
	return file.Close()
}

// name is that of the trace file, or of the recorded pool.
func (r *runner) name() string {
	if r.cfg.Recorded != nil {
		return "pool " + r.cfg.Options.Pool
	}
	return filepath.Base(r.cfg.Trace)
}

func (r *runner) scoredUntil() time.Time {
	if end := r.demand.End(); end.Before(r.until) {
		return end
	}
	return r.until
}

func (r *runner) sizingText() string {
	warmup := fmt.Sprintf("warm-up p50 %s, p90 %s", r.pool.Warmup.Quantile(.5).Round(time.Second), r.pool.Warmup.Quantile(.9).Round(time.Second))
	if r.cfg.Pool == nil && r.hasReplicas() {
		return fmt.Sprintf("a replica carries what one was seen to carry in %g %% of the minutes, %s", 100*capacityQuantile, warmup)
	}
	if r.cfg.Pool != nil {
		return "the configured pool, " + warmup
	}
	return fmt.Sprintf("the busiest minute needs %d replicas, %s", r.cfg.PeakReplicas, warmup)
}

// shown returns one contender per policy: the setting tuned for the first target, or the default.
func (r *runner) shown(s *Summary) (all []*contender) {
	tuned := map[string]string{}
	if len(s.Comparisons) > 0 {
		for _, c := range s.Comparisons[0].Costs {
			tuned[c.Policy] = c.Tuned
		}
	}
	for i := range r.policies {
		spec := &r.policies[i]
		var best *contender
		for _, c := range r.field {
			if c.spec.Name != spec.Name {
				continue
			}
			if best == nil || c.spec.knob(c.set) == tuned[spec.Name] || tuned[spec.Name] == "" && (c.isDefault() || c == r.own) {
				best = c
			}
		}
		if best != nil {
			all = append(all, best)
		}
	}
	return all
}
