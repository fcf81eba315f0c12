package plan

import (
	_ "embed" // the page
	"html/template"
	"io"

	"github.com/forewarm/forewarm/internal/markdown"
)

//go:embed templates/sheet.html
var page string

var pageTemplate = template.Must(template.New("sheet").Parse(page))

// bar is a resource as a bar; positions are percent of the width.
type bar struct {
	Title, Use           string
	Risk                 Risk
	Launch, Before, Full float64
}

// barRange is the demand over capacity at the right end of the bars.
const barRange = 2

// WriteHTML writes s as one page that needs nothing else.
func WriteHTML(w io.Writer, s *Sheet) error {
	var bars []bar
	for _, r := range s.Rows {
		if !r.Headroom.known() || !r.Demand.known() {
			continue
		}
		position := func(n number) float64 {
			if !n.known() {
				return 0
			}
			return min(max(100*float64(n/r.Capacity)/barRange, 0), 100)
		}
		bars = append(bars, bar{
			Title: r.Title, Use: percent(1 - r.Headroom), Risk: r.Risk,
			Launch: position(r.Demand), Before: position(r.Baseline), Full: 100 / barRange,
		})
	}
	details, err := markdown.HTML(s.details(), string(Okay), string(Tight), string(Shortfall), string(OutOfMemory))
	if err != nil {
		return err
	}
	return pageTemplate.Execute(w, map[string]any{"Title": s.title(), "Sheet": s, "Bars": bars, "Details": template.HTML(details)}) // escaped by the Markdown package
}
