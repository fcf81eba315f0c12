package plan

import (
	_ "embed" // the templates
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/forewarm/forewarm/internal/markdown"
	"github.com/forewarm/forewarm/internal/value"
)

var (
	//go:embed templates/sheet.md
	sheetText string
	//go:embed templates/sheet.html
	sheetPage string

	document = markdown.New(sheetText, sheetPage, template.FuncMap{
		"amount": func(n number) string { return value.Short(float64(n)) },
		"kib":    func(bytes number) string { return value.Short(float64(bytes)/1024) + " KiB" },
		"span":   func(seconds number) string { return value.Minutes(seconds / 60) },
		"money":  value.Dollars, "percent": value.Percent,
	}, string(Okay), string(Tight), string(Shortfall), string(OutOfMemory))
)

// number may be unknown.
type number = value.Number

// Render renders a sheet as md, html (one page without external resources) or json (unknown numbers are null). It
// renders the memory of a model on a replica, for which no traffic is needed, as json or as memory, which is Markdown.
func Render[T *Sheet | *Memory](what T, format string) ([]byte, error) {
	return document.Render(format, what)
}

// Title names the sheet.
func (s *Sheet) Title() string { return "Launch sheet of " + s.Pool }

// Headline is a summary in a few sentences.
func (s *Sheet) Headline() string {
	launch := &s.Outcomes[launchIndex]
	text, needs := fmt.Sprintf("The launch (%s) fits.", s.Launch.describe()), "How many replicas it needs is not known"
	unsized := launch.unsized()
	if unsized == "" {
		needs = "It needs " + replicas(launch.Replicas, launch.Prefill)
	}
	switch {
	case launch.First != "":
		text = fmt.Sprintf("The launch (%s) runs out of %s first, %s. %s.", s.Launch.describe(), launch.FirstTitle(), launch.WhenText(), needs)
	case unsized != "":
		text = fmt.Sprintf("It is not known whether the launch (%s) fits: %s", s.Launch.describe(), unsized)
	case launch.Replicas > number(s.Replicas) || launch.Prefill > number(s.Prefill):
		text = fmt.Sprintf("The launch (%s) fits, but leaves no reserve. %s with the reserve.", s.Launch.describe(), needs)
	case slices.ContainsFunc(launch.Uses, Use.missing):
		text = fmt.Sprintf("The launch (%s) fits, as far as is known.", s.Launch.describe())
	}
	if launch.Blocked != "" {
		text += fmt.Sprintf(" That is blocked by %s.", launch.Blocked)
	}
	now, most := replicas(number(s.Replicas), number(s.Prefill)), replicas(number(s.Limit), number(s.PrefillLimit))
	return text + fmt.Sprintf(" Now the pool has %s; at most %s are allowed (%s). A new replica needs up to %s to start. Traffic is from %s.",
		now, most, s.LimitBy, value.Minutes(s.Lead/60), s.Source)
}

// unsized says why the number of replicas is not known, and what to set; "" if it is known.
func (o *Outcome) unsized() string {
	who, keys := "replica", "kv_capacity_tokens, prefill_tokens_per_s or decode_tokens_per_s"
	switch {
	case o.Replicas.Known() && o.Prefill.Known():
		return ""
	case o.Replicas.Known():
		who, keys = "prefill replica", "prefill_tokens_per_s"
	case o.Prefill > 0:
		who, keys = "decode replica", "kv_capacity_tokens or decode_tokens_per_s"
	}
	return fmt.Sprintf("no resource of a %s has a known demand and a known capacity. Set %s of the pool. If they are set, the traffic lacks token counts.", who, keys)
}

func replicas(n, prefill number) string {
	if prefill > 0 {
		return fmt.Sprintf("%.0f decode and %.0f prefill replicas", n, prefill)
	}
	return value.Count(int(n), "replica")
}

// ReplicasText is the number of replicas that are needed, such as "4" or "4 + 2 prefill".
func (o *Outcome) ReplicasText() string {
	text := fmt.Sprintf("%.0f", o.Replicas)
	if o.Prefill != 0 {
		text += fmt.Sprintf(" + %.0f prefill", o.Prefill)
	}
	return strings.ReplaceAll(text, "NaN", "–")
}

// describe returns the change in a few words.
func (c Change) describe() string {
	var parts []string
	say := func(changed bool, format string, v float64) {
		if changed {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	say(c.Rate != 1, "%.3g times the traffic", c.Rate)
	say(c.Prompt != 1, "prompts %.3g times as long", c.Prompt)
	say(c.Output != 1, "outputs %.3g times as long", c.Output)
	if c.CacheHit == 0 {
		parts = append(parts, "no cache hits")
	} else {
		say(c.CacheHit != 1, "%.3g times the cache hits", c.CacheHit)
	}
	say(c.Limits != 1, "%.3g times the limits", c.Limits)
	say(c.Retry > 0, "%.0f %% more attempts", 100*c.Retry)
	if len(parts) == 0 {
		return "no change"
	}
	return strings.Join(parts, ", ")
}

// FirstTitle is the title of the resource that runs out first.
func (o *Outcome) FirstTitle() string {
	for _, u := range o.Uses {
		if u.Resource == o.First {
			return u.Title
		}
	}
	if o.unsized() != "" {
		return "not known"
	}
	return "nothing"
}

// Worst is the highest risk of the resources. It is Unknown if a risk is not known and all others are Okay.
func (o *Outcome) Worst() Risk {
	worst := 0
	for _, u := range o.Uses {
		if u.Risk != Unknown || u.missing() {
			worst = max(worst, slices.Index(bySeverity, u.Risk))
		}
	}
	return bySeverity[worst]
}

// WhenText says when the first resource runs out.
func (o *Outcome) WhenText() string {
	text := "at once"
	switch {
	case o.First == "":
		return "–"
	case o.First == Budget:
		return "once the replicas are bought"
	case o.Share > 0 && o.When != nil && *o.When > 0:
		text = fmt.Sprintf("after %s (at %.0f %% of the change)", value.Minutes(number(*o.When)/60), 100*float64(o.Share))
	case o.Share > 0:
		text = fmt.Sprintf("at %.0f %% of the change", 100*float64(o.Share))
	}
	if o.TooLate && o.Share > 0 {
		text += ", before a new replica is ready"
	}
	return text
}

type memoryPart struct {
	Name  string
	GiB   float64
	Share number
}

// Parts are the parts of a GPU's memory, without those below 1 MiB.
func (m *Memory) Parts() (parts []memoryPart) {
	add := func(name string, bytes float64) {
		if bytes >= 1<<20 {
			parts = append(parts, memoryPart{name, bytes / (1 << 30), number(bytes / m.GPU.Memory)})
		}
	}
	add("weights", m.GPU.Weights)
	add("workspace", m.GPU.Workspace)
	add("KV cache", m.GPU.KV)
	add("not used by the engine", m.GPU.Unused)
	add("in all", m.GPU.Memory)
	return parts
}
