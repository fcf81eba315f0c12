package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
)

// lines tells the demo in plain lines: each pre-scale event, and every half hour how things stand.
type lines struct {
	w       io.Writer
	d       *demoRun
	watched bool
	// ahead are the forecasts for twenty minutes later by minute and dimension, for another may bind by then; kept until
	// they can be compared.
	ahead map[int64]map[string]forecaster.Quantiles
	ready int
}

const aheadMinutes = 20

func (l *lines) phase(text string) {
	fmt.Fprintf(l.w, "\n%s\n\n", text)
	l.watched = l.ahead != nil
	if l.ahead == nil {
		l.ahead = map[int64]map[string]forecaster.Quantiles{}
	}
}

func (l *lines) minute(t *demoTick) {
	f, dim, per := bindingForecast(t)
	if f == nil {
		return
	}
	m := t.at.Unix() / 60
	was, known := l.ahead[m][dim.Name]
	delete(l.ahead, m)
	ahead := map[string]forecaster.Quantiles{}
	for i := range t.forecast.Total {
		total := &t.forecast.Total[i]
		ahead[total.Dimension] = total.Minute[aheadMinutes-1]
	}
	l.ahead[m+aheadMinutes] = ahead
	if t.decision.Ready > l.ready && l.ready > 0 {
		fmt.Fprintf(l.w, "%s  ready %d→%d\n", t.at.Format("15:04"), l.ready, t.decision.Ready)
	}
	l.ready = t.decision.Ready
	if m%30 != 0 {
		return
	}
	compare := ""
	if known {
		compare = fmt.Sprintf(", forecast 20 min ago %s (95 %%: %s)", short(was[forecaster.L50]), short(was[forecaster.L95]))
	}
	r := l.d.reactive.Minute()
	fmt.Fprintf(l.w, "%s  %-7s %6s %s of %s%s | Forewarm %d ready %d warming | reactive %d ready %d warming, %d waiting\n",
		t.at.Format("15:04"), dim.Name, short(f.Last), dim.Unit, short(per*float64(t.decision.Ready)), compare,
		t.decision.Ready, t.decision.Pending, r.Ready, r.Pending, r.Waiting)
}

func (l *lines) event(e *alerting.Event) {
	if !l.watched || e.Data.Action == alerting.Hold {
		return
	}
	fmt.Fprintf(l.w, "%s  pre-scale event: %s\n", e.Time.UTC().Format("15:04"), e.Data.Reason)
}

// screen draws the demo in a terminal: what was forecast against what came, and both pools side by side.
type screen struct {
	w      *os.File
	d      *demoRun
	actual []float64 // of the last chartPast minutes
	ready  []int
	events []string
	text   string
	drawn  bool
	start  [2]int // minutes with a queue when the watching began
	began  bool
}

const (
	chartPast   = 60
	chartFuture = 30
	chartRows   = 12
	eventRows   = 5
)

func newScreen(w *os.File, d *demoRun) *screen { return &screen{w: w, d: d} }

func (s *screen) phase(text string) {
	s.text = text
	if !s.drawn {
		fmt.Fprintf(s.w, "%s\n", text)
		s.drawn = true
	}
}

func (s *screen) event(e *alerting.Event) {
	if e.Data.Action == alerting.Hold {
		return
	}
	s.events = append(s.events, fmt.Sprintf("%s  %s", e.Time.UTC().Format("15:04"), e.Data.Reason))
	s.events = s.events[max(0, len(s.events)-eventRows):]
}

func (s *screen) minute(t *demoTick) {
	a, b := s.d.forewarm, s.d.reactive
	if !s.began {
		s.start, s.began = [2]int{a.Metrics().QueuedMinutes, b.Metrics().QueuedMinutes}, true
	}
	f, dim, per := bindingForecast(t)
	if f == nil {
		return
	}
	s.actual = append(s.actual, f.Last)
	s.actual = s.actual[max(0, len(s.actual)-chartPast):]
	s.ready = append(s.ready, t.decision.Ready)
	s.ready = s.ready[max(0, len(s.ready)-chartPast):]

	var o strings.Builder
	o.WriteString("\x1b[H\x1b[2J")
	fmt.Fprintf(&o, "%s\n\n", s.text)
	eta := "not within the hour"
	if t.projection.ETA.P50 != forecaster.Never {
		eta = fmt.Sprintf("in ~%d min", int(t.projection.ETA.P50.Minutes()))
	}
	fmt.Fprintf(&o, "%s   %s: now %s %s; in 20 min %s (95 %%: %s)   chance to run out within %d min %.0f %%, %s   %s\n",
		t.at.Format("Mon 15:04"), dim.Name, short(f.Last), dim.Unit, short(f.Minute[19][forecaster.L50]), short(f.Minute[19][forecaster.L95]),
		int(t.projection.Lead.Minutes())+5, 100*t.projection.Probability, eta, f.Confidence)
	s.chart(&o, f, per)
	ra, rb := a.Minute(), b.Minute()
	fmt.Fprintf(&o, "\n%-22s %16s %16s\n", "", "Forewarm", "reactive only")
	fmt.Fprintf(&o, "%-22s %16s %16s\n", "replicas", fmt.Sprintf("%d ready +%d", ra.Ready, ra.Pending), fmt.Sprintf("%d ready +%d", rb.Ready, rb.Pending))
	fmt.Fprintf(&o, "%-22s %16d %16d\n", "waiting requests", ra.Waiting, rb.Waiting)
	fmt.Fprintf(&o, "%-22s %16d %16d\n", "minutes with a queue", a.Metrics().QueuedMinutes-s.start[0], b.Metrics().QueuedMinutes-s.start[1])
	o.WriteString("\n")
	for _, e := range s.events {
		fmt.Fprintln(&o, clip(e, 118))
	}
	fmt.Fprint(s.w, o.String())
}

// chart draws the last hour and the next half hour: █ what came, ▒ up to the median, ░ up to the 95 % quantile, and the
// capacity of the replicas that are ready as a line.
func (s *screen) chart(o *strings.Builder, f *forecaster.Forecast, per float64) {
	top := 0.0
	for i, y := range s.actual {
		top = math.Max(top, math.Max(y, per*float64(s.ready[i])))
	}
	for h := range chartFuture {
		top = math.Max(top, f.Minute[h][forecaster.L95])
	}
	top *= 1.05
	for row := chartRows; row >= 1; row-- {
		low, high := top*float64(row-1)/chartRows, top*float64(row)/chartRows
		fmt.Fprintf(o, "%8s ", short(high))
		o.WriteString(strings.Repeat(" ", chartPast-len(s.actual)))
		for i, y := range s.actual {
			o.WriteString(cell(per*float64(s.ready[i]), low, high, y > (low+high)/2, "█"))
		}
		o.WriteString("│")
		now := per * float64(s.ready[len(s.ready)-1])
		for h := range chartFuture {
			mark := "░"
			if f.Minute[h][forecaster.L50] > (low+high)/2 {
				mark = "▒"
			}
			o.WriteString(cell(now, low, high, f.Minute[h][forecaster.L95] > (low+high)/2, mark))
		}
		o.WriteString("\n")
	}
	fmt.Fprintf(o, "%9s%-60s│%s\n", "", "an hour ago          █ what came   ─ capacity that is ready", " ▒ median  ░ 95 %   +30 min")
}

func cell(capacity, low, high float64, filled bool, mark string) string {
	switch {
	case capacity > low && capacity <= high:
		return "─"
	case filled:
		return mark
	}
	return " "
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// short writes a number for people: 1234567 as 1.23M.
func short(x float64) string {
	switch a := math.Abs(x); {
	case a >= 999_500:
		return fmt.Sprintf("%.3gM", x/1e6)
	case a >= 999.5:
		return fmt.Sprintf("%.3gk", x/1e3)
	case a >= 10:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}
