package report

import (
	"cmp"
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
)

//go:embed templates/report.html
var reportPage string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{"unbroken": unbroken}).Parse(reportPage))

// unbroken keeps percent signs with their numbers, and units whole, where lines end.
var unbroken = strings.NewReplacer(" %", "\u00a0%", "GPU-hours", "GPU-hours", "GPU-h", "GPU\u2011h", "replica-hours", "replica-hours", "replica-h", "replica\u2011h").Replace

// What the page shows at most; the JSON has all.
const (
	poolsDrawn   = 10 // with charts
	classesShown = 20 // of a pool, the heaviest
	errorsShown  = 12 // of a pool
)

// grid is a table of the page.
type grid struct {
	Title, Note string
	Class       string   // of the style sheet
	Head        []string // right-aligned where it begins with ">"
	Rows        [][]string
	States      []state // of the rows, where they have one
}

// Heads are the columns' names, and whether they are right-aligned.
func (g grid) Heads() (heads []struct {
	Name  string
	Right bool
}) {
	for _, h := range g.Head {
		name, right := strings.CutPrefix(h, ">")
		heads = append(heads, struct {
			Name  string
			Right bool
		}{name, right})
	}
	return heads
}

// State of a row, "" without one.
func (g grid) State(row int) state {
	if row < len(g.States) {
		return g.States[row]
	}
	return ""
}

// state is how a pool fared, in a word.
type state string

// The states, best first.
const (
	held   state = "held"
	watch  state = "watch"
	act    state = "act"
	noData state = "no data"
)

// Class is the state as a class of the style sheet.
func (s state) Class() string { return strings.ReplaceAll(string(s), " ", "") }

// poolView is a pool's part of the page.
type poolView struct {
	Name    string
	State   state
	Facts   string
	Charts  []figure
	Grids   []grid
	Outline bool // without charts
}

// figure is a chart with what it says.
type figure struct {
	Title, Caption string
	SVG            template.HTML
	Wide           bool
}

// WriteHTML writes r as one page that needs nothing else: no script, no font, no picture from elsewhere. The first page has
// the summary and a table that says of each pool how it fared and what to do; a part for each pool follows. Of many pools
// and classes the page shows the heaviest and says how many are left out: a report of forty pools, ten of them of 10,000
// classes, is less than 3 MB. It is written in one piece; the error is that of w.
func WriteHTML(w io.Writer, r *Report) error {
	r = r.shown()
	var pools []poolView
	order := byNeed(r)
	for i, p := range order {
		pools = append(pools, p.view(i >= poolsDrawn))
	}
	var b strings.Builder
	err := reportTemplate.Execute(&b, map[string]any{
		"From": day(r.From), "To": day(r.To), "Title": period(r), "Summary": r.Summary, "First": firstTable(order), "Pools": pools,
		"Outlined": max(len(order)-poolsDrawn, 0), "Zone": r.Zone.location().String(),
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// period is the time that r is about, for titles.
func period(r *Report) string { return alerting.Period(r.From, r.To, "2 January 2006") }

// byNeed orders pools by how much they need a reader.
func byNeed(r *Report) []*Pool {
	var out []*Pool
	for i := range r.Pools {
		out = append(out, &r.Pools[i])
	}
	rank := map[state]int{act: 0, watch: 1, noData: 2, held: 3}
	slices.SortStableFunc(out, func(a, b *Pool) int {
		return cmp.Or(cmp.Compare(rank[a.state()], rank[b.state()]), cmp.Compare(b.Saturation.SaturatedMinutes, a.Saturation.SaturatedMinutes))
	})
	return out
}

// state says in a word how a pool fared: act when it saturated without having been announced in time; watch when it saturated, when there were more false alarms than true ones, when a tenth of the
// minutes is not known or had no decision, when more than half of what was used was beyond need, or when the 90 % quantile did not hold.
func (p *Pool) state() state {
	s := &p.Saturation
	switch {
	case p.Data.Observed == 0 || s.KnownMinutes == 0 && len(p.headline()) == 0:
		return noData
	case s.Missed+s.Late > 0:
		return act
	case s.SaturatedMinutes > 0, s.False > s.InTime+s.Averted, float64(p.Data.Observed) < .9*float64(p.Data.Minutes), p.beyondNeed() > .5:
		return watch
	}
	if 10*p.Data.Decided < 9*p.Data.Minutes || p.tooNarrow() {
		return watch
	}
	return held
}

// leastOutcomes are the independent outcomes from which a quantile is judged.
const leastOutcomes = 30

// tooNarrow says whether the 90 % quantile of the main row held in fewer minutes than chance explains.
func (p *Pool) tooNarrow() bool {
	a := p.main()
	return a != nil && a.Q90.Effective >= leastOutcomes && float64(a.Q90.High) < .9
}

// main is the headline row of the pool's binding resource, or else the first one; nil without any.
func (p *Pool) main() *Accuracy {
	rows := p.headline()
	for i := range rows {
		if p.Timeline != nil && rows[i].Dimension == p.Timeline.Resource {
			return &rows[i]
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return &rows[0]
}

// firstTable is what a busy reader needs of each pool.
func firstTable(pools []*Pool) grid {
	g := grid{Head: []string{"pool", "state", ">minutes saturated", ">announced in time", ">false alarms", ">error 15 min ahead", ">90 % quantile held", ">used", ">beyond need", ">with hindsight", "what to do"}}
	for _, p := range pools {
		s, v := &p.Saturation, &p.Decisions.Provision
		row := []string{p.Pool, string(p.state()), unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, p.advice()}
		if s.KnownMinutes > 0 {
			row[2], row[4] = fmt.Sprint(s.SaturatedMinutes), fmt.Sprint(s.False)
			if all := s.InTime + s.Late + s.Missed; all > 0 {
				row[3] = fmt.Sprintf("%d of %d", s.InTime, all)
			}
		}
		if a := p.main(); a != nil {
			of := resource(a.Dimension)
			if a.Horizon != strconv.Itoa(headlineMinutes) {
				of += ", " + a.Horizon + " min"
			}
			row[5], row[6] = fmt.Sprintf("%s (%s)", percent(a.WAPE), of), percent(a.Q90.Share)
		}
		if v.KnownMinutes > 0 {
			row[7], row[8], row[9] = v.Paid.cell(), v.Over.cell(), v.Clairvoyant.cell()
		}
		g.Rows, g.States = append(g.Rows, row), append(g.States, p.state())
	}
	return g
}

// advice is what a reader should do about a pool.
func (p *Pool) advice() string {
	s := &p.Saturation
	switch {
	case p.Data.Observed == 0:
		return "Find out why no telemetry comes."
	case s.Missed+s.Late > 0:
		return p.lookAt()
	case 10*p.Data.Observed < 9*p.Data.Minutes:
		return fmt.Sprintf("Mend telemetry: %s of the minutes are not known.", percent(1-Number(p.Data.Observed)/Number(p.Data.Minutes)))
	case s.False > s.InTime+s.Averted:
		return "Lower decision.false_alarms_per_week if the false alarms disturb."
	case s.SaturatedMinutes > 0 && p.Decisions.Mode == string(alerting.Advisory):
		return "Let an autoscaler act on the advice (decision.mode: active): it saturated though that was announced."
	case s.SaturatedMinutes > 0:
		return "See what kept replicas from coming: it saturated though that was announced."
	case 10*p.Data.Decided < 9*p.Data.Minutes:
		return fmt.Sprintf("Find out why no decision stood in %s of the minutes: was the daemon new, or down?", percent(1-Number(p.Data.Decided)/Number(p.Data.Minutes)))
	case p.tooNarrow():
		return fmt.Sprintf("Watch the 90 %% quantile, which held in %s: a higher decision.quantile would be safer until it holds.", percent(p.main().Q90.Share))
	case p.beyondNeed() > .5:
		return fmt.Sprintf("See whether fewer replicas would do: %s of what was used was beyond need.", percent(p.beyondNeed()))
	}
	return "Nothing."
}

// beyondNeed is the share of what was used; NaN where it is not known.
func (p *Pool) beyondNeed() Number {
	v := &p.Decisions.Provision
	if v.KnownMinutes == 0 {
		return Number(math.NaN())
	}
	return v.Over.ReplicaHours / v.Paid.ReplicaHours
}

// surprise is the saturation that was missed or late by most, of those whose error is explained where there is one, and that
// error.
func (p *Pool) surprise() (worst *Episode, why *ErrorEpisode) {
	for i := range p.Saturation.Episodes {
		x := &p.Saturation.Episodes[i]
		if x.Outcome != Missed && x.Outcome != Late {
			continue
		}
		e := p.errorAt(x)
		if worst == nil || why == nil && e != nil || (why != nil) == (e != nil) && x.lacked() > worst.lacked() {
			worst, why = x, e
		}
	}
	return worst, why
}

// lookAt tells of it.
func (p *Pool) lookAt() string {
	worst, why := p.surprise()
	if worst == nil {
		return "Look at the saturations that were late or missed."
	}
	text := fmt.Sprintf("Look at %s: %s rose to %s of capacity, and that was %s", day(worst.Start), resource(worst.Resource), percent(worst.Utilisation),
		map[Outcome]string{Missed: "not announced", Late: "announced late"}[worst.Outcome])
	if why == nil {
		return text + "."
	}
	return fmt.Sprintf("%s: over %s %s came where %s was forecast, for %s.", text, count(why.Minutes, "minute"), percent(why.Actual), percent(why.Forecast), why.because(1))
}

// lacked is the capacity that a saturation lacked at most, in minutes of what was ready.
func (e *Episode) lacked() Number { return (e.Utilisation - 1) * Number(e.Minutes) }

// errorAt is the error of a saturation's resource that came as more than was forecast when it began, the nearest to the
// headline's horizon; nil without one.
func (p *Pool) errorAt(x *Episode) (found *ErrorEpisode) {
	for i := range p.Errors {
		e := &p.Errors[i]
		lasted := time.Duration(e.Minutes) * time.Minute
		if e.Resource == x.Resource && e.Error > 0 && len(e.Parts) > 0 && !x.Start.Before(e.Start) && x.Start.Before(e.Start.Add(lasted)) &&
			(found == nil || larger(e, found) < 0) {
			found = e
		}
	}
	return found
}

func (p *Pool) view(outline bool) poolView {
	d := &p.Decisions
	v := poolView{Name: p.Pool, State: p.state(), Outline: outline}
	v.Facts = fmt.Sprintf("Demand is known for %d of %d minutes; a decision stood in %d, mode %s. Asked for another number of replicas %s, most %d; most ready %d.",
		p.Data.Observed, p.Data.Minutes, p.Data.Decided, cmp.Or(d.Mode, unknown), times(d.Actions), d.PeakDesired, d.PeakReady)
	if p.Data.LongestGap > 0 {
		v.Facts += fmt.Sprintf(" The longest gap lasted %s.", lasting(p.Data.LongestGap))
	}
	if !outline {
		v.Charts = p.charts()
	}
	for _, g := range []grid{p.episodes(), p.causes(), p.provided(), p.paidFor(), p.payers(), p.assumed(), p.drifted(), p.scores(), p.rivals(), p.classes(), p.shape(), p.otherSettings()} {
		if (len(g.Rows) > 0 || g.Head == nil && g.Note != "") && (!outline || g.Title == "Saturations") {
			v.Grids = append(v.Grids, g)
		}
	}
	return v
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (p *Pool) episodes() grid {
	g := grid{Title: "Saturations"}
	all := p.Saturation.Episodes
	if len(all) > 0 {
		g.Head = []string{named("start", all[0].Start.Location()), ">length", "resource", ">peak of capacity", "announced", ">lead"}
	}
	for _, e := range all[:min(len(all), episodesShown)] {
		g.Rows = append(g.Rows, []string{day(e.Start), fmt.Sprintf("%d min", e.Minutes), resource(e.Resource), percent(e.Utilisation),
			strings.ReplaceAll(string(e.Outcome), "_", " "), lead(e.LeadMinutes)})
		g.States = append(g.States, map[Outcome]state{InTime: held, Late: watch, Missed: act}[e.Outcome])
	}
	g.Note = leftOut(len(all)-episodesShown, "saturation")
	return g
}

// leftOut says how many more there are.
func leftOut(n int, noun string) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("%s more are in the JSON.", count(n, noun))
}

func (p *Pool) causes() grid {
	rows, note := p.whyWrong()
	if len(rows) == 0 {
		return grid{}
	}
	head := storyHead(p.Errors[0].Start.Location())
	if !slices.ContainsFunc(rows, func(row []string) bool { return row[len(row)-1] != "" }) { // no notes
		head = head[:len(head)-1]
		for i := range rows {
			rows[i] = rows[i][:len(head)]
		}
	}
	return grid{Title: "Why forecasts were wrong", Class: "why", Note: whyNote + " " + note, Head: head, Rows: rows}
}

// whyNote says how to read a table of errors.
const whyNote = "Use of capacity as forecast and as it came, in percent of the ready replicas; causes in points of that, and all of them (in the JSON) add up to the difference." +
	" An error is large from 10 points on, and from twice what is usual at its horizon."

func (p *Pool) provided() grid {
	v, asks := &p.Decisions.Provision, &p.Decisions.Asks
	g := grid{Title: "What was provided", Head: []string{"", ">replica-hours", ">GPU-hours", ">cost"}}
	if v.KnownMinutes == 0 {
		return g
	}
	for _, x := range []struct {
		name string
		Amount
	}{
		{"ready", v.Ready}, {"warming up", v.Pending}, {"taken by demand", v.Needed}, {"ready beyond demand and reserves", v.Over}, {"missing", v.Under},
		{"paid", v.Paid}, {"least for one who knew demand", v.Clairvoyant}, {"paid beyond that", v.Regret},
	} {
		g.Rows = append(g.Rows, []string{x.name, quantity(x.ReplicaHours, ""), quantity(x.GPUHours, ""), money(x.USD)})
	}
	g.Note = fmt.Sprintf("Over the %d minutes in which demand, capacity and replicas are known.", v.KnownMinutes)
	if asks.Replicas > 0 {
		g.Note += fmt.Sprintf(" Of %s asked for, %d came; demand found %d ready, was before %d, and did not need %d.", count(asks.Replicas, "replica"), asks.Ready, asks.InTime, asks.Late, asks.Unneeded)
	}
	if asks.Ignored > 0 {
		g.Note += fmt.Sprintf(" Nobody obeyed %d of the asks.", asks.Ignored)
	}
	if asks.EventToReady.Count > 0 {
		g.Note += fmt.Sprintf(" From asking to ready took %s for half of those that came, %s for nine in ten.", lead(asks.EventToReady.P50), lead(asks.EventToReady.P90))
	}
	if asks.Replicas > 0 {
		g.Note += fmt.Sprintf(" Half of them were asked for within %s of when the need could be seen, nine in ten within %s.", lead(asks.VisibleToEvent.P50), lead(asks.VisibleToEvent.P90))
	}
	if asks.QueueMeanwhile.Count > 0 {
		g.Note += fmt.Sprintf(" Meanwhile up to %s requests waited for half of the asks, %s for nine in ten.", quantity(asks.QueueMeanwhile.P50, ""), quantity(asks.QueueMeanwhile.P90, ""))
	}
	return g
}

func (p *Pool) assumed() grid {
	g := grid{Title: "What decisions rest on", Head: []string{"assumption", ">stated", ">used", ">learned", ">off by", ">age of evidence", "note"}}
	for _, a := range p.Assumptions {
		g.Rows = append(g.Rows, []string{strings.ReplaceAll(a.Name, "_", " "), quantity(a.Stated, a.Unit), quantity(a.Used, a.Unit), quantity(a.Learned, a.Unit), signed(a.Off), a.age(), a.Note})
		off := held
		if math.Abs(float64(a.Off)) > .15 {
			off = watch
		}
		g.States = append(g.States, off)
	}
	return g
}

func (p *Pool) drifted() grid {
	g := grid{Title: "First and second half", Head: []string{"dimension", ">ahead (min)", ">error", ">bias", ">50 % held", ">90 % held"}}
	for _, d := range p.Drift {
		if d.oneSided() {
			continue
		}
		g.Rows = append(g.Rows, []string{resource(d.Dimension), d.Horizon, percent(d.First.WAPE) + " → " + percent(d.Second.WAPE), signed(d.First.Bias) + " → " + signed(d.Second.Bias),
			percent(d.First.Q50) + " → " + percent(d.Second.Q50), percent(d.First.Q90) + " → " + percent(d.Second.Q90)})
	}
	return g
}

func (p *Pool) scores() grid {
	g := grid{Title: "Every forecast of the pool's total", Head: []string{"dimension", ">ahead (min)", ">mean demand", ">error (WAPE)", ">bias", ">skill", ">CRPS", ">80 % held", ">90 %", ">95 %", ">99 %", ">outcomes", ">missing"}}
	for _, a := range p.Accuracy {
		if a.Class == features.TotalClass {
			g.Rows = append(g.Rows, a.cells())
		}
	}
	return g
}

func (a *Accuracy) cells() []string {
	return []string{resource(a.Dimension), ahead(a.Horizon), quantity(a.Mean, a.Unit), percent(a.WAPE), signed(a.Bias), signed(a.Skill), quantity(a.CRPS, a.Unit),
		percent(a.Q80.Share), percent(a.Q90.Share), percent(a.Q95.Share), percent(a.Q99.Share), fmt.Sprint(a.Outcomes), fmt.Sprint(a.Missing)}
}

func (p *Pool) rivals() grid {
	g := grid{Title: "Against simple forecasts", Note: "Share of their quantile loss that is gone, and how probable as much would be by chance (Diebold–Mariano).", Head: []string{"dimension"}}
	for _, a := range p.headline() {
		row := []string{resource(a.Dimension)}
		for _, c := range a.Baselines {
			if len(g.Rows) == 0 {
				g.Head = append(g.Head, ">"+strings.ReplaceAll(c.Baseline, "_", " "))
			}
			row = append(row, c.String())
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// classes shows the heaviest classes by tokens, and adds the others up.
func (p *Pool) classes() grid {
	g := grid{Title: "Classes", Head: []string{"class", ">requests", ">prompt tokens", ">of those cached", ">output tokens", ">tokens that came late", ">error of requests", ">90 % held"}}
	rows := map[string]*Accuracy{}
	for i := range p.Accuracy {
		a := &p.Accuracy[i]
		if old := rows[a.Class]; a.Dimension == features.DimRequests && (old == nil || far(a.Horizon) < far(old.Horizon)) {
			rows[a.Class] = a
		}
	}
	var totals []Total
	for _, t := range p.Totals {
		if t.Class != features.TotalClass {
			totals = append(totals, t)
		}
	}
	slices.SortStableFunc(totals, func(a, b Total) int { return cmp.Compare(b.tokens(), a.tokens()) })
	nan := Number(math.NaN())
	rest := Total{Requests: nan, PromptTokens: nan, CachedTokens: nan, OutputTokens: nan}
	for i, t := range totals {
		if i >= classesShown {
			rest.Requests.add(float64(t.Requests))
			rest.PromptTokens.add(float64(t.PromptTokens))
			rest.CachedTokens.add(float64(t.CachedTokens))
			rest.OutputTokens.add(float64(t.OutputTokens))
			continue
		}
		wape, q90 := unknown, unknown
		if a := rows[t.Class]; a != nil {
			wape, q90 = percent(a.WAPE), percent(a.Q90.Share)
		}
		g.Rows = append(g.Rows, []string{t.Class, quantity(t.Requests, ""), quantity(t.PromptTokens, ""), quantity(t.CachedTokens, ""), quantity(t.OutputTokens, ""), percent(t.Late.Share), wape, q90})
	}
	if n := len(totals) - classesShown; n > 0 {
		g.Rows = append(g.Rows, []string{fmt.Sprintf("(%d more)", n), quantity(rest.Requests, ""), quantity(rest.PromptTokens, ""), quantity(rest.CachedTokens, ""), quantity(rest.OutputTokens, ""), "", "", ""})
		g.Note = fmt.Sprintf("The %d with the most tokens; %s are added up in the last row, and are in the JSON one by one.", classesShown, count(n, "other"))
	}
	return g
}
