package main

import (
	"fmt"
	"io"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/value"
)

// demoLines prints the demo: each pre-scale event, and the state every half hour.
type demoLines struct {
	w       io.Writer
	d       *demoRun
	watched bool
	// ahead has the forecasts for twenty minutes later, by minute and dimension, because another may bind by then. They
	// are kept until they can be compared.
	ahead map[int64]map[string]forecaster.Quantiles
	ready int
}

const aheadMinutes = 20

func (l *demoLines) phase(text string) {
	fmt.Fprintf(l.w, "\n%s\n\n", text)
	l.watched = l.ahead != nil
	if l.ahead == nil {
		l.ahead = map[int64]map[string]forecaster.Quantiles{}
	}
}

func (l *demoLines) minute(t *demoTick) {
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
		compare = fmt.Sprintf(", forecast 20 min ago %s (95 %%: %s)", value.Short(was[forecaster.L50]), value.Short(was[forecaster.L95]))
	}
	r := l.d.reactive.Observe()
	fmt.Fprintf(l.w, "%s  %-7s %6s %s of %s%s | Forewarm %d ready %d warming | reactive %d ready %d warming, %.0f waiting\n",
		t.at.Format("15:04"), dim.Name, value.Short(f.Last), dim.Unit, value.Short(per*float64(t.decision.Ready)), compare,
		t.decision.Ready, t.decision.Pending, r.Ready, r.Pending, r.Waiting)
}

func (l *demoLines) event(e *alerting.Event) {
	if !l.watched || e.Data.Action == alerting.Hold {
		return
	}
	fmt.Fprintf(l.w, "%s  pre-scale event: %s\n", e.Time.UTC().Format("15:04"), e.Data.Reason)
}
