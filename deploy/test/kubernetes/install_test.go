package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

// TestInstallPage follows docs/install.md as far as it can be followed without a cluster: values are those of the page,
// commands of Helm are rendered, and what is named is there.
func TestInstallPage(t *testing.T) {
	page := strings.ReplaceAll(read(t, root+"/docs/install.md"), "\\\n", " ")
	files := map[string]string{}
	for _, m := range regexp.MustCompile(`(?ms)^cat >>? (\S+) <<'END'\n(.*?)^END$`).FindAllStringSubmatch(page, -1) {
		files[m[1]] += m[2]
	}
	commands := regexp.MustCompile(`(?m)^helm (?:install|upgrade) forewarm deploy/helm/forewarm .*$`).FindAllString(page, -1)
	if len(files) != 1 || len(commands) != 3 {
		t.Fatalf("%d files, %d commands of Helm", len(files), len(commands))
	}
	for _, command := range commands {
		values, err := helmValues(command, files)
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		all, _ := chart(t, values)
		judge(t, all)
		checkConfig(t, all)
	}
	for _, path := range regexp.MustCompile(`\bdeploy/[\w./-]+\w`).FindAllString(page, -1) {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	for _, m := range regexp.MustCompile(`kubectl apply -k (\S+)`).FindAllStringSubmatch(page, -1) {
		if m[1] != "deploy/kustomize/example" {
			t.Errorf("no test builds %s", m[1])
		}
	}
	check(t, read(t, root+"/deploy/forewarm.example.yaml"), nil)
}

// helmValues are the values that a command of Helm gives to the chart.
func helmValues(command string, files map[string]string) (string, error) {
	values := chartutil.Values{}
	words := strings.Fields(command)
	for i, word := range words {
		switch word {
		case "-f":
			text, ok := files[words[i+1]]
			if !ok {
				return "", fmt.Errorf("the page makes no %s", words[i+1])
			}
			read, err := chartutil.ReadValues([]byte(text))
			if err != nil {
				return "", err
			}
			values = read
		case "--set":
			if err := strvals.ParseInto(words[i+1], values); err != nil {
				return "", err
			}
		}
	}
	text, err := yaml.Marshal(values)
	return string(text), err
}
