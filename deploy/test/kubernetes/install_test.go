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

// TestInstallPage checks docs/install.md as far as possible without a cluster: it renders the commands of Helm with the
// values of the page, and the files that the page names exist.
func TestInstallPage(t *testing.T) {
	page := strings.ReplaceAll(read(t, root+"/docs/install.md"), "\\\n", " ")
	files := map[string]string{}
	for _, m := range regexp.MustCompile(`(?ms)^cat >>? (\S+) <<'END'\n(.*?)^END$`).FindAllStringSubmatch(page, -1) {
		files[m[1]] += m[2]
	}
	commands := regexp.MustCompile(`(?m)^helm (?:install|upgrade) forewarm deploy/helm/forewarm .*$`).FindAllString(page, -1)
	if len(files) != 1 || len(commands) != 3 {
		t.Fatalf("%d files, %d Helm commands", len(files), len(commands))
	}
	for _, command := range commands {
		values, err := helmValues(command, files)
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		all, _ := chart(t, values)
		checkObjects(t, all)
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

// helmValues returns the values that a Helm command sets.
func helmValues(command string, files map[string]string) (string, error) {
	values := chartutil.Values{}
	words := strings.Fields(command)
	for i, word := range words {
		switch word {
		case "-f":
			text, ok := files[words[i+1]]
			if !ok {
				return "", fmt.Errorf("the page does not write %s", words[i+1])
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
