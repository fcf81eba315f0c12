// Package markdown writes documents: their templates make Markdown, and pages have that as HTML.
package markdown

import (
	"bytes"
	htmltemplate "html/template"
	"regexp"
	"strings"
	"text/template"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"github.com/forewarm/forewarm/internal/value"
)

// MediaTypes are the formats that clients may ask for.
var MediaTypes = map[string]string{"md": "text/markdown; charset=utf-8", "json": "application/json", "html": "text/html; charset=utf-8"}

// Document makes Markdown, pages and JSON of data. Each template is a format.
type Document struct {
	text *template.Template
	page *htmltemplate.Template
}

// New parses templates of Markdown and of pages. In pages, part is a template of Markdown as HTML; see [HTML].
func New(text, page string, functions template.FuncMap, states ...string) *Document {
	d := &Document{text: template.Must(template.New("").Funcs(template.FuncMap{"text": Text}).Funcs(functions).Parse(text))}
	part := func(name string, data any) (htmltemplate.HTML, error) {
		var b strings.Builder
		if err := d.text.ExecuteTemplate(&b, name, data); err != nil {
			return "", err
		}
		out, err := HTML(strings.ReplaceAll(b.String(), " %", "\u00a0%"), states...) // a number and its sign stay on one line
		return htmltemplate.HTML(out), err                                           // escaped by the Markdown package
	}
	d.page = htmltemplate.Must(htmltemplate.New("").Funcs(htmltemplate.FuncMap{"part": part}).Parse(page))
	return d
}

// Render writes data in a format: json, or the name of a template. On an error there is no partial text.
func (d *Document) Render(format string, data any) ([]byte, error) {
	var b bytes.Buffer
	var err error
	switch {
	case format == "json":
		err = value.WriteJSON(&b, data)
	case d.page.Lookup(format) != nil:
		err = d.page.ExecuteTemplate(&b, format, data)
	default:
		err = d.text.ExecuteTemplate(&b, format, data)
	}
	if err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// special are the characters that mean something in Markdown. Underscores do only at the ends of words.
var special = regexp.MustCompile("[\\\\`*<&#|\\[\\]~]|\\b_+|_+\\b")

// Text escapes s for the middle of a line of Markdown, where nothing begins a block: names from telemetry must not become
// markup. It joins lines.
func Text(s string) string {
	return special.ReplaceAllStringFunc(strings.Join(strings.Fields(s), " "), func(m string) string {
		return "\\" + strings.Join(strings.Split(m, ""), "\\")
	})
}

// converter omits raw HTML and dangerous links. Tables are its only extension.
var converter = goldmark.New(goldmark.WithExtensions(
	extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
))

// HTML is Markdown as HTML. Tables are wrapped in a div of class wide. Rows of which a cell is one of the states have the
// state, without blanks, as their class.
func HTML(text string, states ...string) (string, error) {
	var b strings.Builder
	if err := converter.Convert([]byte(text), &b); err != nil {
		return "", err
	}
	rows := strings.Split(b.String(), "<tr>")
	for i, row := range rows[1:] {
		class := ""
		for _, s := range states {
			if strings.Contains(row, ">"+s+"</td>") {
				class = ` class="` + strings.ReplaceAll(s, " ", "") + `"`
			}
		}
		rows[i+1] = "<tr" + class + ">" + row
	}
	tags := strings.NewReplacer(
		"<th>", `<th scope="col">`, "<th ", `<th scope="col" `,
		"<table>", `<div class="wide"><table>`, "</table>", "</table></div>",
	)
	return tags.Replace(strings.Join(rows, "")), nil
}
