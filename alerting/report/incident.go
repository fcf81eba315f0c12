package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/forecaster"
)

// incident is the errors of one time, of any resource. The first is shown, and the others are named.
type incident []ErrorEpisode

// incidents are the errors of a pool in the order they have in a report.
func (p *Pool) incidents() (all []incident) {
	for i, e := range p.Errors {
		if i == 0 || e.Incident != p.Errors[i-1].Incident {
			all = append(all, nil)
		}
		last := &all[len(all)-1]
		*last = append(*last, e)
	}
	return all
}

// largest are the n incidents whose first errors are largest, by time.
func largest(all []incident, n int) []incident {
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(x, y incident) int { return larger(&x[0], &y[0]) })
	order = order[:min(len(order), n)]
	slices.SortStableFunc(order, func(x, y incident) int { return cmp.Compare(x[0].Incident, y[0].Incident) })
	return order
}

// larger orders errors by how far off they were for how long.
func larger(x, y *ErrorEpisode) int { return cmp.Compare(y.size(), x.size()) }

// size of an error: how far off for how long.
func (e *ErrorEpisode) size() float64 { return math.Abs(float64(e.Error)) * float64(e.Attributed) }

// ahead is a horizon in words, without the unit.
func ahead(horizon string) string {
	if horizon == forecaster.HorizonWindowMax {
		return fmt.Sprintf("largest of %d–%d", forecaster.WindowFrom, forecaster.WindowTo)
	}
	return horizon
}

// main is the largest cause of an error, "" without any.
func (e *ErrorEpisode) main() (largest Cause) {
	most := 0.0
	for _, p := range e.Parts {
		if a := math.Abs(float64(p.Amount)); a > most {
			most, largest = a, p.Cause
		}
	}
	return largest
}

// also names the other resources of an incident, each with its largest error, and with the cause where it differs from that of
// the first error.
func (s incident) also() string {
	var parts []string
	named := []string{s[0].Resource}
	for i := range s[1:] {
		e := &s[1+i]
		if slices.Contains(named, e.Resource) {
			continue
		}
		named = append(named, e.Resource)
		text := resource(e.Resource) + " (" + inPoints(e.Error)
		if cause := e.main(); cause != s[0].main() && cause != "" {
			text += ", for " + cause.words(e.Error)
		}
		parts = append(parts, text+")")
	}
	return strings.Join(parts, "; ")
}

// cells are the incident as a row below incidentHead.
func (s incident) cells() []string {
	e := &s[0]
	return []string{day(e.Start), fmt.Sprintf("%d min", e.Minutes), resource(e.Resource), percent(e.Forecast), percent(e.Actual), inPoints(e.Error),
		e.because(3), s.also(), strings.Join(e.notes(), "; ")}
}

// notes are those of an error that wrongNote does not say of all.
func (e *ErrorEpisode) notes() []string {
	return slices.DeleteFunc(strings.Split(e.Note, "; "), func(n string) bool { return n == askedNote })
}

// incidentHead names the columns of a table of incidents.
var incidentHead = []string{"start", ">length", "forecast of", ">forecast", ">came", ">difference", "because of", "as wrong at that time", "note"}

// whyWrong is the table of a pool's largest incidents, in order, and what is to be said of all.
func (p *Pool) whyWrong() (rows [][]string, note string) {
	if len(p.Errors) == 0 {
		return nil, ""
	}
	shown := largest(p.incidents(), errorsShown)
	for _, s := range shown {
		rows = append(rows, s.cells())
	}
	note = p.wrongNote(len(shown))
	last := len(incidentHead) - 1
	if len(rows) > 1 && rows[0][last] != "" && !slices.ContainsFunc(rows, func(r []string) bool { return r[last] != rows[0][last] }) {
		note += " In all of these " + rows[0][last] + "."
		for _, r := range rows {
			r[last] = ""
		}
	}
	return rows, note
}

// wrongNote says what is shown of a pool's large errors, and what is not.
func (p *Pool) wrongNote(shown int) string {
	found, explained := 0, 0
	var size, rest Number
	for _, c := range p.LargeErrors {
		found, explained = found+c.Episodes, explained+c.Explained
		size, rest = size+c.Size, rest+c.Size-c.ExplainedSize
	}
	text := fmt.Sprintf("In forecasts %s min ahead, about as long as a new replica takes to be ready, there were %s in %s", p.Errors[0].Horizon, count(found, "large error"), count(len(p.incidents()), "episode"))
	if n := len(p.incidents()); n > shown {
		text += fmt.Sprintf(", the %d largest of which are shown", shown)
	}
	text += "; the JSON explains "
	switch {
	case found == explained:
		text += "all"
	default:
		text += fmt.Sprintf("%d and counts the others, the smaller ones (%s of all that large errors were off by)", explained, percent(rest/size))
	}
	text += "."
	if slices.ContainsFunc(p.Errors, func(e ErrorEpisode) bool { return strings.Contains(e.Note, askedNote) }) {
		text += " Use of prefill is " + askedNote + "."
	}
	return text
}
