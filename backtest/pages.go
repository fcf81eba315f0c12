package backtest

import (
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// Pages is how often Forewarm would have woken someone for the pool that obeys it. What a page says cannot be averted any
// more, so it comes true or was false: the pool saturates in the half hour after it, or it did not.
type Pages struct {
	Raised  int    `json:"raised"`
	False   int    `json:"false"`
	PerWeek Number `json:"false_per_week"`
}

// pager follows the pages of a run.
type pager struct {
	from      time.Time
	raised    []time.Time        // in the scored part
	open      map[string]bool    // by identity
	saturated map[time.Time]bool // minutes of the pool, by their beginning
	last      int                // saturated minutes until now
	minutes   int
}

const pageHolds = 30 * time.Minute

func newPager(from time.Time) *pager {
	return &pager{from: from, open: map[string]bool{}, saturated: map[time.Time]bool{}}
}

// minute takes in the account at the end of the minute that began at t.
func (p *pager) minute(t time.Time, a Account) {
	if !t.Before(p.from) {
		p.minutes++
		if a.Saturated > p.last {
			p.saturated[t] = true
		}
	}
	p.last = a.Saturated
}

// tick takes in the alerts of a tick.
func (p *pager) tick(t time.Time, alerts []alerting.Alert) {
	for i := range alerts {
		a := &alerts[i]
		id := a.Identity()
		pages := !a.Resolved && a.Labels["severity"] == string(alerting.Page)
		if pages && !p.open[id] && !t.Before(p.from) {
			p.raised = append(p.raised, t)
		}
		p.open[id] = pages
	}
}

func (p *pager) pages() *Pages {
	out := &Pages{Raised: len(p.raised)}
	for _, t := range p.raised {
		right := false
		for m := t.Truncate(time.Minute).Add(-time.Minute); m.Before(t.Add(pageHolds)); m = m.Add(time.Minute) {
			right = right || p.saturated[m]
		}
		if !right {
			out.False++
		}
	}
	out.PerWeek = Number(share(float64(out.False), float64(p.minutes)/(7*day)))
	return out
}
