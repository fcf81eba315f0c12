// Package markdown writes text as Markdown, and turns Markdown into HTML.
package markdown

import (
	"regexp"
	"strings"
	"text/template"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// special are the characters that mean something in Markdown: underscores do at the ends of words only.
var special = regexp.MustCompile("[\\\\`*<&#|\\[\\]~]|\\b_+|_+\\b")

// Text is s as one line of Markdown that shows s as it is. Names come from telemetry: they must not become markup. It is
// meant for the middle of a line, where nothing begins a block.
func Text(s string) string {
	return special.ReplaceAllStringFunc(strings.Join(strings.Fields(s), " "), func(m string) string {
		return "\\" + strings.Join(strings.Split(m, ""), "\\")
	})
}

// converter leaves raw HTML and dangerous links out. Of the extensions it has tables only.
var converter = goldmark.New(goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))))

// Render executes parts of a template, one after the other. On an error there is no partial text.
func Render(t *template.Template, data any, parts ...string) (string, error) {
	var b strings.Builder
	for _, part := range parts {
		if err := t.ExecuteTemplate(&b, part, data); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

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
	return strings.NewReplacer("<th>", `<th scope="col">`, "<th ", `<th scope="col" `, "<table>", `<div class="wide"><table>`, "</table>", "</table></div>").Replace(strings.Join(rows, "")), nil
}
