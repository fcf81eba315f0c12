package markdown

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

// shown counts the tags of a page, and returns the text of each cell.
func shown(t rapid.TB, text string) (tags map[string]int, cells []string) {
	page, err := HTML(text)
	if err != nil {
		t.Fatal(err)
	}
	tags = map[string]int{}
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return tags, cells
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			tags[token.Data]++
			if token.Data == "td" {
				cells = append(cells, "")
			}
		case html.TextToken:
			if token := z.Token(); len(cells) > 0 {
				cells[len(cells)-1] += token.Data
			}
		}
	}
}

// TestTextIsShown: the text of a cell is shown unchanged, and creates no element.
func TestTextIsShown(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "é", " ", "\\", "|", "_", "__", "*", "**", "`", "<b>", "</td>", "<script>", "&lt;", "&", "[x](javascript:y)", "![", "]", "(", ")", "~~", "#", "-", "1.", "\n", "https://x.example", "\"", "'", "<!--", "\\|"})
	rapid.Check(t, func(r *rapid.T) {
		a := strings.Join(rapid.SliceOf(piece).Draw(r, "a"), "")
		b := strings.Join(rapid.SliceOf(piece).Draw(r, "b"), "")
		page := "## T\n\nN " + Text(b) + "\n\n| x | y |\n| --- | ---: |\n| " + Text(a) + " | " + Text(b) + " |\n| end | held |\n"
		tags, cells := shown(r, page)
		for tag := range tags {
			if !strings.Contains(" h2 p div table thead tbody tr th td ", " "+tag+" ") {
				r.Fatalf("%q makes a %s", page, tag)
			}
		}
		if len(cells) != 4 {
			r.Fatalf("%q has %d cells", page, len(cells))
		}
		for i, want := range []string{a, b} {
			if got, want := strings.TrimSpace(cells[i]), strings.Join(strings.Fields(want), " "); got != want {
				r.Fatalf("%q is shown as %q", want, got)
			}
		}
	})
}

// TestStates: a row has the class of its state.
func TestStates(t *testing.T) {
	page, err := HTML("| a | b |\n| --- | ---: |\n| x | no data |\n| y | other |\n", "held", "no data")
	if err != nil || !strings.Contains(page, "<tr class=\"nodata\">\n<td>x</td>") || !strings.Contains(page, "<tr>\n<td>y</td>") {
		t.Errorf("%v\n%s", err, page)
	}
}
