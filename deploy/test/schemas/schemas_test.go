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

// TestCompose has Compose's own loader judge deploy/compose.yaml: by the schema of the specification, and for parts that are
// named and not there.
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

// TestAdapter has prometheus-adapter make namers of our rules: unknown keys, templates and patterns that it does not
// take are errors.
func TestAdapter(t *testing.T) {
	text, err := os.ReadFile("../../keda/prometheus-adapter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct { // of its Helm chart, which passes rules.external on as externalRules
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
	for i, x := range []struct{ series, label, want string }{
		{"forewarm_desired_replicas", "pool", `max by (pool) (forewarm_desired_replicas{pool="chat",role="all"} and on (pool) (forewarm_advice_valid == 1))`},
	} {
		if name, err := namers[i].MetricNameForSeries(client.Series{Name: x.series}); err != nil || name != x.series {
			t.Errorf("%s is called %q (%v)", x.series, name, err)
		}
		query, err := namers[i].QueryForExternalSeries(x.series, "llm", labels.SelectorFromSet(labels.Set{x.label: "chat"}))
		if err != nil || string(query) != x.want {
			t.Errorf("%s is asked for by %s (%v), want %s", x.series, query, err, x.want)
		}
	}
}

// TestDashboards has Grafana's own types judge deploy/grafana, panels, options and queries included: unknown keys and
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
		// The types answer with an empty list of errors, too.
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
						t.Errorf("%s: %q is in the place of %q, or outside", file, *panel.Title, other)
					}
					occupied[[2]uint32{x, y}] = *panel.Title
				}
			}
		}
	}
}
