package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLength: the two first pages stay short.
func TestLength(t *testing.T) {
	for page, limit := range map[string]int{"README.md": 150, "ARCHITECTURE.md": 120} {
		if n := strings.Count(read(t, filepath.Join(root, page)), "\n"); n > limit {
			t.Errorf("%s has %d lines: at most %d", page, n, limit)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchors are the fragments that the headings of a page make, as GitHub makes them.
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

// TestLinks: what a page links to in this repository is there.
func TestLinks(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "deploy/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
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
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if fragment != "" && !anchors(read(t, file))[fragment] {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

// TestArchitecture: the functions that the page names are where it says.
func TestArchitecture(t *testing.T) {
	hops := regexp.MustCompile("`([a-z/]+\\.go)`: ((?:`\\w+`(?:, )?)+)").FindAllStringSubmatch(read(t, filepath.Join(root, "ARCHITECTURE.md")), -1)
	if len(hops) < 10 {
		t.Errorf("%d places are named", len(hops))
	}
	for _, m := range hops {
		source := read(t, filepath.Join(root, m[1]))
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(m[2], -1) {
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `\(`).MatchString(source) {
				t.Errorf("%s has no function %s", m[1], name)
			}
		}
	}
}

// TestPaths: the files of this repository that pages name are there.
func TestPaths(t *testing.T) {
	named := regexp.MustCompile("`((?:[a-z0-9_]+/)+[A-Za-z0-9_]+\\.(?:go|md|yaml|conf|proto|py|bin|service))`")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "deploy/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			if name := filepath.Base(page); name == "CHANGELOG.md" || name == "001-one-network.md" {
				continue // they tell of other versions
			}
			for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
				if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
					t.Errorf("%s names %s, which is not there", page, m[1])
				}
			}
		}
	}
}
