package report

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/forewarm/forewarm/internal/markdown"
)

//go:embed templates/mail.html
var mailPage string

var mailTemplate = template.Must(template.New("mail").Parse(mailPage))

// poolsMailed bounds the pools of a mail; the attached page has all.
const poolsMailed = 64

// mail is the first page in lines of Markdown. It has lists in place of the table, which would be too wide.
func (r *Report) mail() []string {
	lines := []string{"# " + r.title(), ""}
	for i, s := range r.Summary {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, markdown.Text(s)))
	}
	order := byNeed(r)
	shown := order[:min(len(order), poolsMailed)]
	g := firstTable(shown)
	last := len(g.Head) - 1
	for _, row := range g.Rows {
		lines = append(lines, "", "## "+markdown.Text(row[0])+": "+row[1], "", markdown.Text(row[last]), "")
		for i := 2; i < last; i++ {
			lines = append(lines, "- "+strings.TrimPrefix(g.Head[i], ">")+": "+markdown.Text(row[i]))
		}
	}
	if more := len(order) - len(shown); more > 0 {
		lines = append(lines, "", count(more, "more pool")+" are in the attached page.")
	}
	return append(lines, "", "Charts and details are in the attached page. "+r.times())
}

// WriteMail writes the first page for readers of mail.
func WriteMail(w io.Writer, r *Report) error {
	r = r.shown()
	page, err := markdown.HTML(unbroken(strings.Join(r.mail(), "\n")))
	if err != nil {
		return err
	}
	return mailTemplate.Execute(w, map[string]any{"Title": r.title(), "Body": template.HTML(page)}) // escaped by the Markdown package
}

// WriteText writes the first page as plain text, in lines of at most 78 characters but for names that are longer.
func WriteText(w io.Writer, r *Report) error {
	var b strings.Builder
	for _, line := range r.shown().mail() {
		wrap(&b, line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap writes a line in lines of at most 78 characters.
func wrap(b *strings.Builder, line string) {
	const most = 78
	column := 0
	for i, word := range strings.Fields(line) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > most:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
}
