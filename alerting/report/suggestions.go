package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// changeHead are the columns of what to change, triedHead those of all that was tried.
var (
	changeHead = []string{"setting", "from → to", "expected effect", "why", "how sure"}
	triedHead  = []string{"setting", "from → to", "effect", "suggested"}
)

// footnotes are what is said of several changes, once each.
type footnotes []string

// add gives the numbers of a text's sentences: " (note 1, 3)", "" without any.
func (f *footnotes) add(text string) string {
	var numbers []int
	for _, s := range strings.SplitAfter(text, ". ") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		i := slices.Index(*f, s)
		if i < 0 {
			i = len(*f)
			*f = append(*f, s)
		}
		numbers = append(numbers, i+1)
	}
	if len(numbers) == 0 {
		return ""
	}
	slices.Sort(numbers)
	return " (note " + strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ", ") + ")"
}

// cells are the suggestion as a row of changeHead.
func (s *Suggestion) cells(notes *footnotes) []string {
	return []string{s.Key, s.From + " → " + s.To, s.Expected.text(), s.Why, strings.TrimSuffix(s.How, ".") + notes.add(s.Note)}
}

// cells are the change as a row of triedHead.
func (t *Tried) cells() []string {
	return []string{t.Key, t.From + " → " + t.To, t.Expected.text(), map[bool]string{true: "yes", false: "no"}[t.Suggested]}
}

// text is what a change does to replicas.
func (e *Effect) text() string {
	return fmt.Sprintf("saturated minutes %s; GPU-hours %s%s; scaling actions %s", arrow(e.SaturatedMinutesBefore, e.SaturatedMinutesAfter),
		arrow(e.GPUHoursBefore, e.GPUHoursAfter), change(e.GPUHoursBefore, e.GPUHoursAfter), arrow(e.ScaleActionsBefore, e.ScaleActionsAfter))
}

// change is a relative difference in parentheses, "" where there is none.
func change(before, after Number) string {
	c := signed(after/before - 1)
	if c == unknown {
		return ""
	}
	return " (" + c + ")"
}

// setting is a part of a configuration: a value, or settings within.
type setting struct {
	name, value string
	within      []*setting
}

// at finds or makes the setting of that name.
func (s *setting) at(name string) *setting {
	for _, w := range s.within {
		if w.name == name {
			return w
		}
	}
	s.within = append(s.within, &setting{name: name})
	return s.within[len(s.within)-1]
}

func (s *setting) write(b *strings.Builder, indent string) {
	for _, w := range s.within {
		b.WriteString(strings.TrimRight(indent+w.name+": "+w.value, " ") + "\n")
		if indent = strings.ReplaceAll(indent, "-", " "); len(w.within) > 0 {
			deeper := indent + "  "
			if w.name == "pools" {
				deeper += "- "
			}
			w.write(b, deeper)
		}
	}
}

// settings are the suggested changes as YAML, as configurations have them; "" without any.
func (p *Pool) settings() string {
	var all setting
	for i := range p.Suggestions {
		s := &p.Suggestions[i]
		to, path := &all, s.Key
		if name, rest, ok := strings.Cut(strings.TrimPrefix(s.Key, "pools["), "]."); ok && strings.HasPrefix(s.Key, "pools[") {
			to, path = all.at("pools"), rest
			to.at("name").value = strconv.Quote(name)
		}
		for name := range strings.SplitSeq(path, ".") {
			to = to.at(oneLine(name))
		}
		to.value = oneLine(s.To)
	}
	var b strings.Builder
	all.write(&b, "")
	return b.String()
}

// oneLine is a text without the ends of lines, which would end a block of YAML.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// suggested says what would have done better.
func suggested(b *strings.Builder, r *Report) {
	var rows [][]string
	var notes footnotes
	var untried []string
	for i := range r.Pools {
		p := &r.Pools[i]
		for j := range p.Suggestions {
			rows = append(rows, append([]string{p.Pool}, p.Suggestions[j].cells(&notes)...))
		}
		if len(p.Suggestions) == 0 && p.SuggestionsTried != "" {
			untried = append(untried, oneLine(p.Pool)+": "+p.nothing())
		}
	}
	if len(rows)+len(untried) > 0 {
		b.WriteString("\n## What to change\n")
	}
	if len(rows) > 0 {
		b.WriteString("\n" + changeNote + "\n")
		table(b, append([]string{"pool"}, changeHead...), rows)
	}
	for i, text := range notes {
		fmt.Fprintf(b, "\n%d. %s", i+1, text)
	}
	if len(notes) > 0 {
		b.WriteString("\n")
	}
	for i := range r.Pools {
		if y := r.Pools[i].settings(); y != "" {
			fmt.Fprintf(b, "\n%s:\n\n```yaml\n%s```\n", oneLine(r.Pools[i].Pool), y)
		}
	}
	for _, text := range untried {
		b.WriteString("\n" + text + "\n")
	}
}

// changeNote says how to read what to change.
const changeNote = "Each change was tried by itself on the period's own data, all else as it was; several at once may do more or less. The YAML beneath goes into the settings that are there."

// nothing says why nothing is suggested.
func (p *Pool) nothing() string {
	if len(p.Tried) == 0 {
		return p.SuggestionsTried
	}
	return fmt.Sprintf("no change is suggested; %d were tried, which are listed below.", len(p.Tried))
}

// tried lists all that was tried, and how.
func tried(b *strings.Builder, r *Report) {
	var rows [][]string
	var how []string
	for i := range r.Pools {
		p := &r.Pools[i]
		for j := range p.Tried {
			rows = append(rows, append([]string{p.Pool}, p.Tried[j].cells()...))
		}
		if len(p.Tried) > 0 {
			how = append(how, oneLine(p.Pool)+": "+p.TriedHow)
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n## What was tried\n")
		table(b, append([]string{"pool"}, triedHead...), rows)
		b.WriteString("\n" + strings.Join(how, "\n\n") + "\n")
	}
}

func (p *Pool) suggested() grid {
	g := grid{Title: "What to change", Note: changeNote, Head: slices.Clone(changeHead), YAML: p.settings()}
	for i := range p.Suggestions {
		g.Rows = append(g.Rows, p.Suggestions[i].cells((*footnotes)(&g.Below)))
	}
	if len(g.Rows) == 0 { // what was tried in vain is told without a table
		g.Head, g.Note = nil, ""
		if p.SuggestionsTried != "" {
			g.Note = p.nothing()
		}
	}
	return g
}

func (p *Pool) tried() grid {
	g := grid{Title: "What was tried", Note: p.TriedHow, Head: slices.Clone(triedHead)}
	for i := range p.Tried {
		g.Rows = append(g.Rows, p.Tried[i].cells())
	}
	return g
}
