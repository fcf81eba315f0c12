package report

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"
)

//go:embed templates/mail.html
var mailPage string

var mailTemplate = template.Must(template.New("mail").Parse(mailPage))

// poolsMailed bounds the rows of a mail; the attached page has all.
const poolsMailed = 64

// mailRow is a pool in a mail: what to do is above its numbers, across the table, for beside them it would be a word wide.
type mailRow struct {
	Pool, State, Do string
	Cells           []string
}

// together keeps what belongs together where lines end, so that the columns fit 600 pixels: a line may end after a comma, before
// a bracket and before hours.
var together = strings.NewReplacer(", ", ", ", " (", " (", " GPU-h", " GPU\u2011h", " replica-h", " replica\u2011h", " ", "\u00a0").Replace

// WriteMail writes the first page for readers of mail, who show neither style sheets nor drawings: what it looks like is
// said at each element.
func WriteMail(w io.Writer, r *Report) error {
	r = r.shown()
	order := byNeed(r)
	shown := order[:min(len(order), poolsMailed)]
	g := firstTable(shown)
	last := len(g.Head) - 1
	rows := make([]mailRow, len(g.Rows))
	for i, row := range g.Rows {
		rows[i] = mailRow{Pool: row[0], State: row[1], Do: unbroken(row[last])}
		for _, cell := range row[2:last] {
			rows[i].Cells = append(rows[i].Cells, together(cell))
		}
	}
	return mailTemplate.Execute(w, map[string]any{
		"Title": period(r), "Summary": r.Summary, "Heads": g.Heads()[2:last], "Rows": rows, "More": len(order) - len(shown), "Zone": r.Zone.location().String(),
	})
}

// WriteText writes the first page as plain text, in lines of at most 78 characters but for names that are longer.
func WriteText(w io.Writer, r *Report) error {
	r = r.shown()
	var b strings.Builder
	b.WriteString("Forewarm report, " + period(r) + "\n\n")
	for i, s := range r.Summary {
		wrap(&b, fmt.Sprintf("%d. ", i+1), s)
	}
	order := byNeed(r)
	shown := order[:min(len(order), poolsMailed)]
	g := firstTable(shown)
	for _, row := range g.Rows {
		fmt.Fprintf(&b, "\n%s: %s\n", flat(row[0]), strings.ToUpper(row[1]))
		for i := 2; i < len(row); i++ {
			wrap(&b, fmt.Sprintf("  %-20s ", strings.TrimPrefix(g.Head[i], ">")+":"), row[i])
		}
	}
	if more := len(order) - len(shown); more > 0 {
		fmt.Fprintf(&b, "\n%s are in the attached page.\n", count(more, "more pool"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flat is a text in one line.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

// wrap writes a text behind a lead, its further lines indented as far.
func wrap(b *strings.Builder, lead, text string) {
	const most = 78
	indent := utf8.RuneCountInString(lead)
	b.WriteString(lead)
	column := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > most:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
}
