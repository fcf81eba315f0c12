package schemas

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/prometheus-adapter/pkg/client"
	"sigs.k8s.io/prometheus-adapter/pkg/config"
	"sigs.k8s.io/prometheus-adapter/pkg/naming"
	"sigs.k8s.io/yaml"
)

// TestCompose loads deploy/compose.yaml with the loader of Compose, which checks it against the schema of the
// specification and refuses names of missing parts.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../../compose.yaml"}, cli.WithName("forewarm"))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"forewarm", "prometheus", "alertmanager"} {
		if _, err := project.GetService(name); err != nil {
			t.Error(err)
		}
	}
}

// TestAdapter loads our rules with the code of prometheus-adapter. Unknown keys, and templates and patterns that it
// does not accept, are errors.
func TestAdapter(t *testing.T) {
	text, err := os.ReadFile("../../keda/prometheus-adapter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct { // of its Helm chart, which makes externalRules of rules.external
		Rules struct {
			External any `json:"external"`
		} `json:"rules"`
	}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	text, err = yaml.Marshal(map[string]any{"externalRules": values.Rules.External})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.FromYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	namers, err := naming.NamersFromConfig(c.ExternalRules, kinds)
	if err != nil {
		t.Fatal(err)
	}
	if len(namers) != 1 {
		t.Fatalf("%d rules, want 1", len(namers))
	}
	const series = "forewarm_desired_replicas"
	const want = `max by (pool) (forewarm_desired_replicas{pool="chat",role="all"} and on (pool) (forewarm_advice_valid == 1))`
	if name, err := namers[0].MetricNameForSeries(client.Series{Name: series}); err != nil || name != series {
		t.Errorf("%s has the name %q (%v)", series, name, err)
	}
	query, err := namers[0].QueryForExternalSeries(series, "llm", labels.SelectorFromSet(labels.Set{"pool": "chat"}))
	if err != nil || string(query) != want {
		t.Errorf("the query of %s is %s (%v), want %s", series, query, err, want)
	}
}

// TestDashboards decodes deploy/grafana with the types of Grafana, with panels, options and queries. Unknown keys and
// wrong types are errors.
func TestDashboards(t *testing.T) {
	types := cog.NewRuntime()
	types.RegisterDataqueryVariant(prometheus.VariantConfig())
	types.RegisterPanelcfgVariant(stat.VariantConfig())
	types.RegisterPanelcfgVariant(statetimeline.VariantConfig())
	types.RegisterPanelcfgVariant(table.VariantConfig())
	types.RegisterPanelcfgVariant(timeseries.VariantConfig())
	files, err := filepath.Glob("../../grafana/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %d dashboards", err, len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard.Dashboard
		// A valid dashboard may return an empty list of errors.
		if err := d.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
			t.Errorf("%s: %v", file, err)
		}
		d = dashboard.Dashboard{}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if len(d.Panels) == 0 {
			t.Errorf("%s has no panels", file)
		}
		ids, occupied := map[uint32]bool{}, map[[2]uint32]string{}
		for _, p := range d.Panels {
			if p.RowPanel != nil {
				continue
			}
			panel := p.Panel
			if ids[*panel.Id] {
				t.Errorf("%s: two panels have the id %d", file, *panel.Id)
			}
			ids[*panel.Id] = true
			for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
				for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
					if other := occupied[[2]uint32{x, y}]; other != "" || x >= 24 {
						t.Errorf("%s: %q overlaps %q, or is outside", file, *panel.Title, other)
					}
					occupied[[2]uint32{x, y}] = *panel.Title
				}
			}
		}
	}
}
