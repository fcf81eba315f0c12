package workflows

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rhysd/actionlint"
)

// TestWorkflows checks .github/workflows with actionlint. Each action is pinned to a commit, with its version in a
// comment.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../../.github/workflows/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %d workflows", err, len(files))
	}
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := linter.LintFiles(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
	uses, pinned := regexp.MustCompile(`(?m)^.*\buses: [^.].*$`), regexp.MustCompile(`uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range uses.FindAllString(string(text), -1) {
			if !pinned.MatchString(line) {
				t.Errorf("%s: %s is not pinned to a commit and its version", file, line)
			}
		}
	}
}
