package server

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

//go:embed templates/page.html
var templates embed.FS

var page = template.Must(template.ParseFS(templates, "templates/page.html"))

// pageView is what the page shows, ready to print.
type pageView struct {
	Version, Tick  string
	Mode           alerting.Mode
	RefreshSeconds int
	Trouble        []Check // checks that fail or are degraded
	Alerts         []alertLine
	Pools          []card
	Span           string // of the cards' traffic
}

// card is one pool on the page.
type card struct {
	Pool, Reason, Decision  string // Decision is its id
	Action                  alerting.Action
	Asks                    string // the action, in words
	Decided                 bool
	Ready, Pending, Desired int
	Floor                   *int
	Prefill                 *prefill // of a disaggregated pool
	Confidence              forecaster.Confidence
	Stale                   bool
	Chart                   *figure // of what binds
	Charts                  []figure
	Traffic                 []trafficRow
	Rows                    []row
	Alerts                  []alertLine
	Notes                   []string // constraints and warnings
}

// prefill is the replicas that only compute prompts.
type prefill struct{ Ready, Pending, Desired int }

// row is one resource of a pool.
type row struct {
	Resource, Unit, Demand, Capacity, Utilisation string
	AfterFailure                                  string
	Binding                                       bool
	Probability                                   []string // at probabilityHorizons
	ETA                                           string
}

type alertLine struct {
	Name      alerting.AlertName
	Severity  string
	Summary   string
	Since     string
	Threshold string // of a warning: from which probability on, and how often that comes to nothing
}

func (s *Server) getPage(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := page.Execute(&b, s.view()); err != nil {
		s.log.Error("render the page", zap.Error(err))
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

func (s *Server) view() pageView {
	st, pools := s.reader.Status(), s.reader.Pools()
	v := pageView{Version: st.Version, Mode: st.Mode, Tick: "none yet", RefreshSeconds: int(s.cfg.Refresh.Seconds()), Span: TrafficSpan}
	if !st.Tick.IsZero() {
		v.Tick = st.Tick.UTC().Format("Mon 2006-01-02 15:04 MST")
	}
	for _, c := range checks(st, pools, s.cfg.LagLimit, time.Now()) {
		if !c.OK || c.Degraded {
			v.Trouble = append(v.Trouble, c)
		}
	}
	v.Alerts = alertLines(st.Alerts)
	for i := range pools {
		c := newCard(&pools[i])
		c.Traffic = trafficRows(s.trafficOf(c.Pool))
		v.Pools = append(v.Pools, c)
	}
	return v
}

func newCard(p *PoolView) card {
	c := card{Pool: p.Pool, Ready: p.State.Ready, Pending: p.State.Pending, Stale: p.Stale, Reason: "No decision yet."}
	binding := ""
	if d := p.Decision; d != nil {
		c.Decided, c.Action, c.Reason, c.Confidence, c.Decision, binding = true, d.Action, d.Reason, d.Confidence, d.EventID(), d.Binding
		c.Asks = strings.ReplaceAll(string(d.Action), "_", " ")
		c.Ready, c.Pending, c.Desired, c.Floor = d.Ready, d.Pending, d.Desired, d.SeenFloor()
		c.Notes = append(append(c.Notes, d.Constraints...), d.Warnings...)
		if d.Withheld != "" && d.Mode == alerting.Active {
			c.Notes = append(c.Notes, "autoscalers get no advice yet: "+d.Withheld)
		}
		if said := d.Diagnosed(); said != "" {
			c.Notes = append(c.Notes, said)
		}
		if kept := d.Reserves.String(); kept != "" {
			c.Notes = append(c.Notes, "in reserve: "+kept)
		}
		if v := d.Prefilling(); v != nil {
			c.Prefill = &prefill{v.Ready, v.Pending, v.Desired}
			if kept := v.Reserves.String(); kept != "" {
				c.Notes = append(c.Notes, "in reserve of prefill replicas: "+kept)
			}
		}
	}
	for _, of := range p.roles() {
		for i := range of.Resources {
			c.Rows = append(c.Rows, newRow(of, &of.Resources[i], binding))
		}
	}
	if binding == "" {
		binding = features.DimRequests
	}
	c.Chart, c.Charts = charts(p, binding)
	c.Alerts = alertLines(p.Alerts)
	return c
}

func alertLines(alerts []alerting.Alert) (out []alertLine) {
	for _, a := range alerts {
		out = append(out, alertLine{a.Name, a.Labels["severity"], a.Annotations["summary"], a.StartsAt.UTC().Format("15:04"), a.Annotations["threshold"]})
	}
	return out
}

func newRow(of *forecaster.Projection, r *forecaster.ResourceProjection, binding string) row {
	out := row{
		Resource: r.Dimension, Unit: unit(r.Dimension), Demand: si(r.Demand), Binding: r.Dimension == binding,
		Capacity: si(r.PerReplica * float64(of.Supply.Ready)), Utilisation: percent(r.Utilisation), ETA: etaText(r.ETA), AfterFailure: "none kept",
	}
	if of.Reserve > 0 && of.Left() == 0 {
		out.AfterFailure = "no replica left"
	} else if of.Reserve > 0 {
		out.AfterFailure = percent(of.UseAfterFailure(r))
	}
	for _, h := range probabilityHorizons {
		out.Probability = append(out.Probability, percent(r.Probability[h-1]))
	}
	return out
}

func percent(f float64) string {
	if math.IsNaN(f) {
		return "unknown"
	}
	return fmt.Sprintf("%.0f %%", 100*f)
}

// etaText is the middle of an ETA with its range, such as "12 min (8 to beyond 60 min)".
func etaText(e forecaster.ETA) string {
	if e.P10 == forecaster.Never {
		return "beyond 60 min"
	}
	minutes := func(d time.Duration) string {
		if d == forecaster.Never {
			return "beyond 60"
		}
		return fmt.Sprintf("%.0f", d.Minutes())
	}
	return minutes(e.P50) + " min (" + minutes(e.P10) + " to " + minutes(e.P90) + ")"
}
