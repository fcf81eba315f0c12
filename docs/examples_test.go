package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/alerting"
)

var yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")

// TestExamples: every yaml block is accepted by forewarm check, on its own or beside a pool.
func TestExamples(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(read(t, root+"/forecaster/capacity/testdata/llama3-70b.json")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		for _, m := range yamlBlock.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[2], "apiVersion:") {
				continue
			}
			text := strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")
			if !strings.Contains(text, "\npools:") {
				text += "pools: [{name: chat, replicas: {max: 4}}]\n"
			}
			file := filepath.Join(dir, "forewarm.yaml")
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path, "check", "-offline", "-config", file).CombinedOutput(); err != nil {
				t.Errorf("%s: %s\n%s", page, out, text)
			}
		}
	}
}

// TestAlertsPage: the page lists the alerts that the program has, and their runbooks are there.
func TestAlertsPage(t *testing.T) {
	var listed []alerting.AlertName
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(read(t, "alerts.md"), -1) {
		listed = append(listed, alerting.AlertName(m[1]))
		if _, err := os.Stat(filepath.Join(root, "deploy", "runbooks", m[1]+".md")); err != nil {
			t.Error(err)
		}
	}
	want := slices.Sorted(slices.Values(alerting.AlertNames))
	if slices.Sort(listed); !slices.Equal(listed, want) {
		t.Errorf("the page lists %v; there are %v", listed, want)
	}
}
