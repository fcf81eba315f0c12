package kubernetes

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const kustomizeDir = "../../kustomize"

var update = flag.Bool("update", false, "write the files of deploy/kustomize that are made from the chart")

// TestBase: the manifests and the configuration of deploy/kustomize are those of the chart with its default values. The
// ConfigMap is not compared: Kustomize makes it, with a hash in its name that restarts the pods.
func TestBase(t *testing.T) {
	all, _ := chart(t, "serviceMonitor: {enabled: true}\nprometheusRule: {enabled: true}")
	ofHelm := regexp.MustCompile(`(?m)^ +(helm\.sh/chart|app\.kubernetes\.io/(managed-by|version)): .*\n|^ +annotations:\n +checksum/config: .*\n|^# Source: .*\n`)
	made := map[string]string{}
	for _, o := range all {
		text := strings.TrimSpace(ofHelm.ReplaceAllString(o.text, "")) + "\n"
		switch o.kind {
		case "Pod": // of helm test
		case "ConfigMap":
			_, config, _ := strings.Cut(o.text, "forewarm.yaml: |\n")
			made["base/forewarm.yaml"] = strings.TrimSpace(regexp.MustCompile(`(?m)^    `).ReplaceAllString(config, "")) + "\n"
		case "ServiceMonitor", "PrometheusRule":
			made["monitoring/manifests.yaml"] += "---\n" + text
		default:
			made["base/manifests.yaml"] += "---\n" + text
		}
	}
	for name, text := range made {
		text = "# Made from the Helm chart: go test -C deploy/test/kubernetes -run TestBase -update\n" + text
		path := filepath.Join(kustomizeDir, name)
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if read(t, path) != text {
			t.Errorf("%s differs from the chart; write it with -update", path)
		}
	}
}

// TestKustomize builds the base and the example, and checks their objects like those of the chart.
func TestKustomize(t *testing.T) {
	for name, want := range map[string][]string{
		"base":    {"ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "Service", "ServiceAccount", "StatefulSet"},
		"example": {"ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "Service", "Service", "ServiceAccount", "ServiceMonitor", "StatefulSet"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(kustomizeDir, name)
			built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
			if err != nil {
				t.Fatal(err)
			}
			text, err := built.AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			all := decode(t, string(text))
			var kinds []string
			for _, o := range all {
				kinds = append(kinds, o.kind)
			}
			if slices.Sort(kinds); !slices.Equal(kinds, want) {
				t.Errorf("objects %v, want %v", kinds, want)
			}
			checkObjects(t, all)
			checkConfig(t, all)
			if name == "example" {
				if set := of[apps.StatefulSet](all)[0]; set.Namespace != "forewarm" {
					t.Errorf("namespace %q", set.Namespace)
				}
				if m := of[monitoring.ServiceMonitor](all)[0]; m.Labels["release"] == "" {
					t.Error("the ServiceMonitor has no label release, which Prometheus selects")
				}
			}
		})
	}
}
