package server

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

//go:embed templates static
var files embed.FS

// pages are the templates by name, each with the frame.
var pages = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range []string{"fleet", "pool", "class", "whatif", "decision", "problem"} {
		all[name] = template.Must(template.New("frame.html").Funcs(template.FuncMap{
			"short":   shown(func(n number) string { return value.Short(float64(n)) }),
			"percent": shown(value.Percent), "chance": shown(chance), "eta": etaText,
			"change": func(d forecaster.Driver) string { return alerting.Change(d.Cause, d.Factor) },
			"name":   dimensionName, "unit": unit, "class": features.ClassName, "words": words,
			"clock": clock, "when": when,
			"path": url.PathEscape, "query": url.QueryEscape,
		}).ParseFS(files, "templates/frame.html", "templates/"+name+".html"))
	}
	return all
}()

// frame is the common part of all pages.
type frame struct {
	statusJSON
	Root    string  // of relative links
	Page    string  // name of its template
	Trouble []Check // checks that fail or are degraded
	Body    any
}

func (s *Server) routePages(mux *http.ServeMux) {
	static, _ := fs.Sub(files, "static") // it is there
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)))
	for _, x := range []struct {
		pattern, name string
		get           answer
	}{
		{"/{$}", "fleet", s.getPools},
		{"/pools/{pool}", "pool", ofPool(s, s.poolPage)},
		{"/pools/{pool}/classes/{class...}", "class", ofPool(s, s.classPage)},
		{"/what-if", "whatif", s.whatIfPage},
		{"/explain/{id...}", "decision", s.decisionPage},
	} {
		mux.HandleFunc("GET "+x.pattern, func(w http.ResponseWriter, r *http.Request) { s.show(w, r, x.name, x.get) })
	}
}

func (s *Server) show(w http.ResponseWriter, r *http.Request, name string, get answer) {
	status := http.StatusOK
	body, err := get(r)
	if err != nil {
		p := asProblem(err)
		status, name, body = p.Status, "problem", p
	}
	root := strings.Repeat("../", strings.Count(r.URL.EscapedPath(), "/")-1)
	f := frame{statusJSON: s.status(), Root: root, Page: name, Body: body}
	for _, c := range checks(f.Status, s.reader.Pools(), time.Now()) {
		if !c.OK || c.Degraded {
			f.Trouble = append(f.Trouble, c)
		}
	}
	var b bytes.Buffer
	if err := pages[name].Execute(&b, f); err != nil {
		s.log.Error("render a page", zap.Error(err))
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

type poolBody struct {
	poolJSON
	All             []string // resources to choose from
	Timeline        *timelineJSON
	Load, Timelines *figure
	Hours           []bandJSON // of the forecast, for the table
	Oldest          time.Time  // of the slider
	Notes           []string
	Classes         []string
}

func (s *Server) poolPage(r *http.Request, p *PoolView) (any, error) {
	t, err := s.timeline(r, p)
	if err != nil {
		return nil, err
	}
	b := poolBody{
		poolJSON:  poolToJSON(p),
		All:       resourceNames(),
		Timeline:  t,
		Load:      loadChart(t),
		Timelines: replicaChart(t),
		Oldest:    t.Newest.Add(-timelineReach),
	}
	for i, x := range t.Forecast {
		if minute := int(x.At.Sub(t.At)/time.Minute) + 1; i == 0 || t.Past || minute%15 == 0 {
			b.Hours = append(b.Hours, x)
		}
	}
	classes := columnOf(p.Forecast.Classes, func(f *forecaster.Forecast) string { return f.Class })
	slices.Sort(classes)
	b.Classes = slices.Compact(classes)
	if d := p.Decision; d != nil {
		for _, warning := range d.Warnings {
			if !slices.ContainsFunc(p.Alerts, func(a alerting.Alert) bool { return strings.HasPrefix(warning, a.Annotations["description"]) }) {
				b.Notes = append(b.Notes, sentence(warning))
			}
		}
		if reason := withheld(s.reader, p, time.Now()); reason != "" && d.Mode == alerting.Active {
			b.Notes = append(b.Notes, "Autoscalers get no advice: "+reason+".")
		}
	}
	return b, nil
}

type classBody struct {
	*classJSON
	Figures []*figure
}

func (s *Server) classPage(r *http.Request, p *PoolView) (any, error) {
	c, err := s.class(r, p)
	if err != nil {
		return nil, err
	}
	b := classBody{classJSON: c}
	for rest := c.Series; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(x seriesJSON) bool { return x.Group != rest[0].Group })
		if n < 0 {
			n = len(rest)
		}
		if f := lineChart(rest[0].Group, rest[0].Unit, c.From, c.To, rest[:n]); f != nil {
			b.Figures = append(b.Figures, f)
		}
		rest = rest[n:]
	}
	return b, nil
}

// slider is one parameter of the what-if page.
type slider struct {
	Name, Title, Unit, Value string
	Min, Max, Step           string
}

type whatIfBody struct {
	Pools   []string
	Pool    string
	Sliders []slider
	Sheet   *plan.Sheet
	Link    string // of the whole sheet
	Problem *Problem
}

func (s *Server) whatIfPage(r *http.Request) (any, error) {
	b := whatIfBody{Pool: r.FormValue("pool")}
	ready := 0
	for _, p := range s.reader.Pools() {
		b.Pools = append(b.Pools, p.Pool)
		b.Pool = cmp.Or(b.Pool, p.Pool) // the first one, if none is asked for
		if b.Pool == p.Pool && p.Decision != nil {
			ready = p.Decision.Ready
		}
	}
	b.Sliders = []slider{
		{"launch", "Traffic", "× today's", "1", "0.5", "10", "0.1"},
		{"prompt", "Length of prompts", "× today's", "1", "0.5", "5", "0.1"},
		{"output", "Length of outputs", "× today's", "1", "0.5", "5", "0.1"},
		{"cache_hit", "Cache hits", "× today's", "1", "0", "1.5", "0.05"},
		{"retry", "More retries", "a request", "0", "0", "1", "0.05"},
		{"replicas", "Replicas left", "", strconv.Itoa(ready), "1", strconv.Itoa(max(ready, 1)), "1"},
		{"ramp", "The change takes", "min", "20", "0", "240", "5"},
	}
	query := url.Values{"pool": {b.Pool}}
	for i := range b.Sliders {
		x := &b.Sliders[i]
		asked := r.FormValue(x.Name)
		if x.Name == "replicas" && (asked == "" || asked == x.Value) {
			continue // those that there are
		}
		x.Value = cmp.Or(asked, x.Value)
		query.Set(x.Name, x.Value)
	}
	query.Set("ramp", query.Get("ramp")+"m")
	b.Link = "api/v1/plan?" + query.Encode()
	if b.Pool == "" {
		b.Problem = Problemf(http.StatusNotFound, "No pool has telemetry yet, so there is no traffic to plan from.")
		return b, nil
	}
	var err error
	if b.Sheet, err = s.Plan(r.Context(), query); err != nil {
		b.Problem = asProblem(err)
	}
	return b, nil
}

// decisionPage explains a decision; programs ask /api/v1/explain.
func (s *Server) decisionPage(r *http.Request) (any, error) {
	x, err := s.Explain(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = x.WriteText(&text)
	return map[string]string{"ID": x.ID, "Reason": x.Decision.Reason, "Text": text.String()}, err
}

// shown shows a rounded number, with the exact value of the API as an attribute.
func shown(text func(number) string) func(any) template.HTML {
	return func(v any) template.HTML {
		n := number(reflect.Indirect(reflect.ValueOf(v)).Float())
		if !n.Known() {
			return `<span class="unknown">unknown</span>`
		}
		return template.HTML(fmt.Sprintf(`<data value="%s">%s</data>`, strconv.FormatFloat(float64(n), 'g', -1, 64), template.HTMLEscapeString(text(n))))
	}
}

// chance is a probability in percent, never shown as 0 % or 100 %.
func chance(p number) string {
	switch {
	case p < .01:
		return "below 1 %"
	case p > .99:
		return "above 99 %"
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}

// clock is the time of day, when the day with it; both in UTC.
func clock(t time.Time) template.HTML { return stamp(t, "15:04") }
func when(t time.Time) template.HTML  { return stamp(t, "Mon 2 Jan 2006, 15:04 MST") }

func stamp(t time.Time, layout string) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format(layout) + `</time>`)
}

// sentence is a text with an upper-case first letter and a full stop.
func sentence(text string) string {
	first := min(1, len(text))
	return strings.ToUpper(text[:first]) + strings.TrimSuffix(text[first:], ".") + "."
}

func words(v any) string { return strings.ReplaceAll(fmt.Sprint(v), "_", " ") }

// etaText is a time to saturation with its range.
func etaText(e etaJSON) string {
	minutes := func(seconds number) string { return fmt.Sprintf("%.0f", seconds/60) }
	switch {
	case !e.P10.Known():
		return "not within the hour"
	case !e.P50.Known():
		return minutes(e.P10) + " min or later"
	case e.P50 == 0:
		return "now"
	case !e.P90.Known():
		return "about " + minutes(e.P50) + " min (" + minutes(e.P10) + " to over 60)"
	}
	return "about " + minutes(e.P50) + " min (" + minutes(e.P10) + " to " + minutes(e.P90) + ")"
}
