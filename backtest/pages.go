package backtest

import (
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
)

// Pages is how often Forewarm would have woken someone for the pool that obeys it. What a page says cannot be averted any
// more, so it comes true or was false: the pool saturates in the half hour after it, or it did not.
type Pages struct {
	Raised  int    `json:"raised"`
	False   int    `json:"false"`
	PerWeek Number `json:"false_per_week"`
}

// pageHolds is how long after a page the pool may saturate, minutes.
const pageHolds = 30

// pager follows the pages of a run.
type pager struct {
	from      time.Time
	raised    []int           // minutes of the scored part
	open      map[string]bool // by identity
	saturated []bool          // minutes of the scored part
	last      int             // saturated minutes until now
}

func newPager(from time.Time) *pager { return &pager{from: from, open: map[string]bool{}} }

// minute takes in the account at the end of the minute that began at t.
func (p *pager) minute(t time.Time, a Account) {
	if !t.Before(p.from) {
		p.saturated = append(p.saturated, a.Saturated > p.last)
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
			p.raised = append(p.raised, int(t.Sub(p.from)/features.Minute))
		}
		p.open[id] = pages
	}
}

func (p *pager) pages() *Pages {
	out := &Pages{Raised: len(p.raised)}
	for _, m := range p.raised {
		if from, to := max(m-1, 0), min(m+pageHolds, len(p.saturated)); !slices.Contains(p.saturated[min(from, to):to], true) {
			out.False++
		}
	}
	out.PerWeek = Number(share(float64(out.False), float64(len(p.saturated))/(7*day)))
	return out
}
