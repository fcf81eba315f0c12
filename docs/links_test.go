package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLength: the first two pages are short.
func TestLength(t *testing.T) {
	for page, limit := range map[string]int{"README.md": 150, "ARCHITECTURE.md": 120} {
		if n := strings.Count(read(t, filepath.Join(root, page)), "\n"); n > limit {
			t.Errorf("%s has %d lines, want at most %d", page, n, limit)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
)

// documents are the patterns of pages that are checked for links and paths.
var documents = []string{"*.md", "docs/*.md", "docs/decisions/*.md", "deploy/*/*.md"}

// anchors returns the link fragments of the headings of a page, as GitHub makes them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		text := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
				return r
			}
			return -1
		}, strings.ToLower(h[1]))
		all[text] = true
	}
	return all
}

// TestLinks: the targets of links within the repository exist.
func TestLinks(t *testing.T) {
	for _, page := range pages(t, documents...) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, page), ""), -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if fragment != "" && !anchors(read(t, file))[fragment] {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

// TestArchitecture: the functions that the page names are in the files that it names.
func TestArchitecture(t *testing.T) {
	named := regexp.MustCompile("`([a-z/]+\\.go)`: ((?:`\\w+`(?:, )?)+)").FindAllStringSubmatch(read(t, filepath.Join(root, "ARCHITECTURE.md")), -1)
	if len(named) < 10 {
		t.Errorf("%d files are named, want 10 or more", len(named))
	}
	for _, m := range named {
		source := read(t, filepath.Join(root, m[1]))
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(m[2], -1) {
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `\(`).MatchString(source) {
				t.Errorf("%s has no function %s", m[1], name)
			}
		}
	}
}

// TestPaths: the files of the repository that pages name exist.
func TestPaths(t *testing.T) {
	named := regexp.MustCompile("`((?:[a-z0-9_]+/)+[A-Za-z0-9_]+\\.(?:go|md|yaml|conf|proto|py|bin|service))`")
	for _, page := range pages(t, documents...) {
		if name := filepath.Base(page); name == "CHANGELOG.md" || name == "001-one-network.md" {
			continue // they are about other versions too
		}
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}
