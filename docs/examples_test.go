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
	"github.com/forewarm/forewarm/internal/testenv"
)

var yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")

// TestExamples: forewarm check accepts each yaml block of the pages. A block without pools gets one.
func TestExamples(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	testenv.WriteFile(t, filepath.Join(dir, "config.json"), read(t, root+"/forecaster/capacity/testdata/llama3-70b.json"))
	for _, page := range pages(t, "docs/*.md") {
		for _, m := range yamlBlock.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[2], "apiVersion:") {
				continue
			}
			text := strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")
			if !strings.Contains(text, "\npools:") {
				text += "pools: [{name: chat, replicas: {max: 4}}]\n"
			}
			file := testenv.WriteFile(t, filepath.Join(dir, "forewarm.yaml"), text)
			if out, err := exec.Command(path, "check", "-offline", "-config", file).CombinedOutput(); err != nil {
				t.Errorf("%s: %s\n%s", page, out, text)
			}
		}
	}
}

// TestAlertsPage: the page lists the alerts of the program, and each has a runbook.
func TestAlertsPage(t *testing.T) {
	var listed []alerting.AlertName
	for _, m := range regexp.MustCompile("(?m)^\\| \\[`(\\w+)`\\]").FindAllStringSubmatch(read(t, "alerts.md"), -1) {
		listed = append(listed, alerting.AlertName(m[1]))
		if _, err := os.Stat(filepath.Join(root, "deploy", "runbooks", m[1]+".md")); err != nil {
			t.Error(err)
		}
	}
	want := slices.Sorted(slices.Values(alerting.AlertNames))
	if slices.Sort(listed); !slices.Equal(listed, want) {
		t.Errorf("the page lists %v, want %v", listed, want)
	}
}

var (
	codeSpan    = regexp.MustCompile("`[^`\n]+`|(?m)^ {4,}\\S.*$|^\\$? ?\\./forewarm .*$")
	commandLine = regexp.MustCompile(`(?:^|[\s/])forewarm ([a-z][a-z-]*)((?: [^|;&>]*)?)`)
	flagName    = regexp.MustCompile(`(?:^|\s)-([a-z][a-z0-9-]*)`)
)

// TestCommands: the commands and flags that pages name exist.
func TestCommands(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	help, err := exec.Command(path, "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	usage := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z-]+) `).FindAllStringSubmatch(string(help), -1) {
		text, _ := exec.Command(path, m[1], "-h").CombinedOutput()
		usage[m[1]] = string(text)
	}
	seen := 0
	for _, page := range pages(t, "*.md", "docs/*.md", "deploy/*/*.md") {
		if name := filepath.Base(page); name == "CHANGELOG.md" || name == "BENCHMARKS.md" {
			continue // they are about other versions too
		}
		text := strings.ReplaceAll(read(t, page), "\\\n", " ")
		for _, span := range codeSpan.FindAllString(text, -1) {
			for _, m := range commandLine.FindAllStringSubmatch(strings.Trim(span, "`"), -1) {
				flags, ok := usage[m[1]]
				if !ok {
					t.Errorf("%s names the command %q, which does not exist", page, m[0])
					continue
				}
				seen++
				arguments, _, _ := strings.Cut(m[2], "#")
				for _, f := range flagName.FindAllStringSubmatch(arguments, -1) {
					if !strings.Contains(flags, "  -"+f[1]+" ") && !strings.Contains(flags, "  -"+f[1]+"\n") {
						t.Errorf("%s names %s, which has no flag -%s", page, m[0], f[1])
					}
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d commands were found, want 20 or more", seen)
	}
}

// TestLibraries: the decision on libraries names each direct dependency.
func TestLibraries(t *testing.T) {
	page := read(t, "decisions/009-libraries.md")
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+?)(?:/v\d+)? v\S+$`).FindAllStringSubmatch(read(t, root+"/go.mod"), -1) {
		parts := strings.Split(m[1], "/")
		if !slices.ContainsFunc(parts[1:], func(part string) bool { return strings.Contains(page, part) }) {
			t.Errorf("the page does not say what %s is for", m[1])
		}
	}
}

// TestRunbooks: the metrics, fields, keys, annotations and paths that runbooks name are in the reference pages, most of
// which are generated.
func TestRunbooks(t *testing.T) {
	reference := ""
	for _, page := range []string{"http-api", "metrics", "configuration", "subjects-and-events", "telemetry", "alerts"} {
		reference += read(t, page+".md")
	}
	name, seen := regexp.MustCompile(`^[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*$`), 0
	others := strings.Fields("certificate df dmesg max_num_batched_tokens payload.json repeat_interval timedatectl up") // of other programs
	for _, page := range pages(t, "deploy/runbooks/*.md") {
		for _, span := range codeSpan.FindAllString(read(t, page), -1) {
			for _, word := range strings.FieldsFunc(span, func(r rune) bool { return strings.ContainsRune("` (){}[]=,:\"<>?", r) }) {
				known := slices.Contains(others, word)
				switch {
				case strings.HasPrefix(word, "/"):
					known = strings.Contains(reference, word)
				case name.MatchString(word) && (span == "`"+word+"`" || strings.ContainsAny(word, "._")):
					known = known || strings.Contains(reference, "`"+word+"`") || strings.Contains(reference, "."+word+"`")
				default:
					continue
				}
				if seen++; !known {
					t.Errorf("%s names %s, which no reference page has", page, word)
				}
			}
		}
	}
	if seen < 80 {
		t.Errorf("%d names were found, want 80 or more", seen)
	}
}
