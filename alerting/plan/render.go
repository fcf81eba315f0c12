package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/markdown"
)

// WriteJSON writes s as indented JSON; numbers that are not known are null.
func WriteJSON(w io.Writer, s *Sheet) error { return encode(w, s) }

// WriteMemoryJSON is WriteJSON of a replica's memory alone.
func WriteMemoryJSON(w io.Writer, m *Memory) error { return encode(w, m) }

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// WriteMarkdown writes s for people. It is written in one piece; the error is that of w.
func WriteMarkdown(w io.Writer, s *Sheet) error {
	_, err := io.WriteString(w, "# "+markdown.Text(s.title())+"\n\n"+markdown.Text(s.Headline())+"\n"+s.details())
	return err
}

func (s *Sheet) title() string { return "Launch sheet of " + s.Pool }

// details are the tables and the notes.
func (s *Sheet) details() string {
	text := sections(s.tables())
	if len(s.Notes) > 0 {
		text += "\n## Notes\n\n"
	}
	for _, n := range s.Notes {
		text += "- " + markdown.Text(n) + "\n"
	}
	return text
}

// WriteMemoryMarkdown writes what a model takes of a replica, when there is no traffic to plan for.
func WriteMemoryMarkdown(w io.Writer, m *Memory) error {
	_, err := io.WriteString(w, "# A replica\n"+sections(m.tables()))
	return err
}

func sections(tables []markdown.Table) string {
	var b strings.Builder
	for i := range tables {
		tables[i].Write(&b, 2)
	}
	return b.String()
}

// Headline is what the sheet says in a few sentences.
func (s *Sheet) Headline() string {
	launch := &s.Outcomes[1]
	var b strings.Builder
	fmt.Fprintf(&b, "From %s. %s now", s.Source, replicas(s.Replicas, s.Prefill))
	if s.PrefillLimit > 0 {
		fmt.Fprintf(&b, ", at most %d (%s) and %d", s.Limit, s.LimitBy, s.PrefillLimit)
	} else {
		fmt.Fprintf(&b, ", at most %d (%s)", s.Limit, s.LimitBy)
	}
	fmt.Fprintf(&b, "; a replica takes up to %s to warm up.", span(float64(s.Lead)))
	switch {
	case launch.First == "" && (launch.Replicas > s.Replicas || launch.Prefill > s.Prefill):
		fmt.Fprintf(&b, " The launch (%s) fits, but barely: to provide for it takes %s.", s.Launch.describe(), replicas(launch.Replicas, launch.Prefill))
	case launch.First == "":
		fmt.Fprintf(&b, " The launch (%s) fits.", s.Launch.describe())
	default:
		fmt.Fprintf(&b, " The launch (%s) runs out of %s first, %s; it takes %s.", s.Launch.describe(), launch.title(launch.First), launch.whenText(), replicas(launch.Replicas, launch.Prefill))
	}
	if launch.Blocked != "" {
		fmt.Fprintf(&b, " That is blocked by %s.", launch.Blocked)
	}
	return b.String()
}

func replicas(n, prefill int) string {
	if prefill > 0 {
		return fmt.Sprintf("%d decode and %d prefill replicas", n, prefill)
	}
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

// describe says what a change does, in a few words.
func (c Change) describe() string {
	var parts []string
	factor := func(name string, v float64) {
		if v != 1 {
			parts = append(parts, fmt.Sprintf("%s ×%.3g", name, v))
		}
	}
	factor("traffic", c.Rate)
	factor("prompts", c.Prompt)
	factor("outputs", c.Output)
	factor("cache hits", c.CacheHit)
	factor("limits", c.Limits)
	if c.Retry > 0 {
		parts = append(parts, fmt.Sprintf("%.0f %% more attempts", 100*c.Retry))
	}
	if c.PutOff > 0 {
		parts = append(parts, fmt.Sprintf("work waits up to %s", span(60*float64(c.PutOff))))
	}
	if len(parts) == 0 {
		return "no change"
	}
	return strings.Join(parts, ", ")
}

func (o *Outcome) title(name string) string {
	for _, u := range o.Uses {
		if u.Resource == name {
			return u.Title
		}
	}
	return name
}

func (o *Outcome) whenText() string {
	switch {
	case o.First == "":
		return "–"
	case o.First == Budget:
		return "once what it takes is bought"
	case o.Share == 0:
		return "at once"
	}
	text := fmt.Sprintf("at %.0f %% of the change", 100*float64(o.Share))
	if o.When != nil && *o.When > 0 {
		text += ", " + span(*o.When) + " into the ramp"
	}
	if o.TooLate {
		text += ", sooner than a replica warms up"
	}
	return text
}

func (s *Sheet) tables() []markdown.Table {
	tables := []markdown.Table{s.launchTable(), s.scenarioTable()}
	if s.Memory != nil {
		tables = append(tables, s.Memory.tables()...)
	}
	if s.Cost != nil {
		tables = append(tables, s.Cost.tables()...)
	}
	for _, m := range []*Mix{s.Mix, s.PrefillMix} {
		if m != nil {
			tables = append(tables, m.table())
		}
	}
	return tables
}

func (s *Sheet) launchTable() markdown.Table {
	t := markdown.Table{Title: "Launch", Head: []string{"resource", ">baseline p95", ">launch p95", ">capacity", ">headroom", "risk", ">P(short)", ">runs out at", ">with all replicas"}}
	for _, r := range s.Rows {
		t.Rows = append(t.Rows, []string{r.Title, amount(r.Baseline), amount(r.Demand), amount(r.Capacity), percent(r.Headroom), string(r.Risk), percent(r.Chance), multiple(r.Multiple), multiple(r.MostMultiple)})
	}
	return t
}

func (s *Sheet) scenarioTable() markdown.Table {
	t := markdown.Table{Title: "What if", Head: []string{"scenario", "risk", "runs out first", "when", ">replicas", ">busiest minute", "blocked by", ">$/h"}}
	if s.PrefillLimit > 0 {
		t.Note = "Replicas are those that decode + those that compute prompts."
	}
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		worst := Okay
		for _, u := range o.Uses {
			if u.Risk == OutOfMemory || u.Risk == Shortfall || u.Risk == Tight && worst == Okay {
				worst = u.Risk
			}
		}
		first, blocked := "none", o.Blocked
		if o.First != "" {
			first = o.title(o.First)
		}
		if blocked == "" {
			blocked = "–"
		}
		n, peak := fmt.Sprint(o.Replicas), fmt.Sprint(o.Peak)
		if o.Prefill > 0 {
			n, peak = fmt.Sprintf("%s + %d", n, o.Prefill), fmt.Sprintf("%s + %d", peak, o.PrefillPeak)
		}
		when := o.whenText()
		if o.At != nil && o.First != "" {
			when += fmt.Sprintf("; %.1f %% of minutes, from %s", 100*float64(o.Over), o.At.Format("2006-01-02 15:04"))
		}
		t.Rows = append(t.Rows, []string{o.Title, string(worst), first, when, n, peak, blocked, money(o.HourUSD)})
	}
	return t
}

func (m *Memory) tables() []markdown.Table {
	g := m.GPU
	bytes := markdown.Table{
		Title: "Memory", Note: fmt.Sprintf("Of the fullest of a replica's GPUs (it has %d). A token takes %s of KV cache, %s of it on that GPU.", m.GPUs, kib(m.ModelToken), kib(m.TokenBytes)),
		Head: []string{"", ">GiB", ">share"},
	}
	if m.Windowed > 0 {
		bytes.Note += fmt.Sprintf(" %d layers keep the newest %d tokens only.", m.Windowed, m.Window)
	}
	if m.Weights.known() {
		bytes.Note += fmt.Sprintf(" %s weights", amount(m.Weights))
		if m.Active < m.Weights {
			bytes.Note += fmt.Sprintf(", %s active", amount(m.Active))
		}
		bytes.Note += fmt.Sprintf("; the checkpoint has %.1f GiB.", float64(m.Checkpoint)/(1<<30))
	}
	workspace := "workspace"
	if m.Estimated {
		workspace = "workspace (estimated: state what the engine prints)"
	}
	left := g.Memory - g.Unused - g.Weights - g.Workspace - g.Adapters - g.KV
	for _, row := range []struct {
		name  string
		bytes float64
	}{
		{"weights", g.Weights}, {workspace, g.Workspace}, {"adapters", g.Adapters}, {"KV cache", g.KV}, {"fragmentation", left},
		{"not used by the engine", g.Unused}, {"in all", g.Memory},
	} {
		if row.bytes >= 1<<20 {
			bytes.Rows = append(bytes.Rows, []string{row.name, fmt.Sprintf("%.2f", row.bytes/(1<<30)), fmt.Sprintf("%.1f %%", 100*row.bytes/g.Memory)})
		}
	}
	requests := markdown.Table{Title: "Requests that a replica holds at once", Head: []string{"context", ">tokens each", ">tokens in all", ">most", ">safe", "bound by"}}
	for _, r := range m.Requests {
		requests.Rows = append(requests.Rows, []string{r.Context, amount(r.Tokens), amount(r.TokensHeld), fmt.Sprint(r.Most), fmt.Sprint(r.Safe), r.Binding})
	}
	return []markdown.Table{bytes, requests}
}

func (c *Cost) tables() []markdown.Table {
	text := "With the replicas there are, at the mean traffic."
	if c.Date != "" || c.Region != "" {
		text += strings.TrimRight(fmt.Sprintf(" Prices of %s, %s", c.Date, c.Region), ", ") + "."
	}
	cost := markdown.Table{Title: "Cost", Note: text, Head: []string{"", ">$"}}
	cost.Rows = append(cost.Rows, []string{"an hour", money(c.Hour)})
	for _, x := range c.Parts {
		cost.Rows = append(cost.Rows, []string{"of it " + x.Title, money(x.Hour)})
	}
	for _, row := range []struct {
		name string
		v    number
	}{
		{"a request", c.Request}, {"a request that was served", c.Served}, {"1,000 prompt tokens", c.PromptTokens}, {"1,000 output tokens", c.OutputTokens},
	} {
		cost.Rows = append(cost.Rows, []string{row.name, money(row.v)})
	}
	tables := []markdown.Table{cost}
	for _, x := range []struct {
		title  string
		shares []Share
	}{{"Cost by class", c.Classes}, {"Cost by feature", c.Features}, {"Cost by tenant", c.Tenants}, {"Cost by model", c.Models}} {
		if len(x.shares) == 0 {
			continue
		}
		t := markdown.Table{Title: x.title, Head: []string{"", ">requests", ">tokens", ">KV-seconds", ">cost", ">$/h", ">$ a request", ">$ a served one", ">$ per 1k prompt tokens", ">$ per 1k output tokens"}}
		for _, s := range x.shares {
			t.Rows = append(t.Rows, []string{s.Name, percent(s.Requests), percent(s.Tokens), percent(s.KV), percent(s.Cost), money(s.Hour),
				money(s.Request), money(s.Served), money(s.PromptTokens), money(s.OutputTokens)})
		}
		tables = append(tables, t)
	}
	return tables
}

func (m *Mix) table() markdown.Table {
	t := markdown.Table{Title: "Cheapest mix for the launch" + m.of(), Head: []string{"type", ">replicas", ">$/h each", ">carries", "bound by"}}
	t.Note = fmt.Sprintf("%s $/h", money(m.HourUSD))
	if m.Uniform.known() {
		t.Note += fmt.Sprintf("; of one type alone %s $/h", money(m.Uniform))
	}
	t.Note += ". Each type is sent the same mix of requests."
	for _, x := range m.Types {
		t.Rows = append(t.Rows, []string{x.Name, fmt.Sprint(x.Replicas), money(x.HourUSD), percent(x.Share), x.Binding})
	}
	return t
}

// of names the role that m is of, where a pool has two.
func (m *Mix) of() string {
	if m.Role == capacity.AnyRole {
		return ""
	}
	return ", " + string(m.Role) + " replicas"
}

// amount is a number to three digits, thousands as k and so on.
func amount(n number) string {
	v := float64(n)
	if !n.known() {
		return "–"
	}
	for _, unit := range []struct {
		from float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if math.Abs(v) >= unit.from {
			if unit.from == 1e4 {
				return digits(v/1e3) + unit.name
			}
			return digits(v/unit.from) + unit.name
		}
	}
	return digits(v)
}

// digits is v to three digits, without an exponent.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || a == 0:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func percent(n number) string {
	if !n.known() {
		return "–"
	}
	switch {
	case n < -9.99:
		return "below −999 %"
	case n > 9.99:
		return "above 999 %"
	}
	return strings.Replace(fmt.Sprintf("%.0f %%", 100*float64(n)), "-", "−", 1)
}

func multiple(n number) string {
	if !n.known() {
		return "–"
	}
	return "×" + digits(float64(n))
}

func money(n number) string {
	if !n.known() {
		return "–"
	}
	if v := math.Abs(float64(n)); v < 0.1 && v != 0 {
		return strconv.FormatFloat(float64(n), 'f', 2-int(math.Floor(math.Log10(v))), 64) // three digits
	}
	return fmt.Sprintf("%.2f", float64(n))
}

// kib is a size in KiB, as sizes of a token are written.
func kib(bytes number) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/1024), ".0") + " KiB"
}

// span is a time in seconds as people write it.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d >= time.Minute {
		d = d.Round(time.Minute)
		return strings.TrimSuffix(d.String(), "0s")
	}
	return d.String()
}
