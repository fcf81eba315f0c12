package daemon

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/internal/testenv"
)

// readStrict reads a YAML file of deploy into v. An unknown key is an error.
func readStrict(t *testing.T, file string, v any) {
	t.Helper()
	text := must(os.ReadFile(filepath.Join("../../deploy", file)))
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// compose has the keys of a Compose file that deploy/compose.yaml uses (compose-spec, 05-services.md, 07-volumes.md,
// 08-configs.md). The content of a config needs Compose 2.23.1 or later.
type compose struct {
	Name     string
	Services map[string]struct {
		Build           struct{ Context string }
		Image           string
		Command         []string
		Restart         string
		ReadOnly        bool                         `yaml:"read_only"`
		CapDrop         []string                     `yaml:"cap_drop"`
		SecurityOpt     []string                     `yaml:"security_opt"`
		DependsOn       map[string]map[string]string `yaml:"depends_on"`
		Healthcheck     map[string]any
		Environment     map[string]string
		Configs         []struct{ Source, Target string }
		Volumes         []string
		Tmpfs           []string
		Ports           []string
		StopGracePeriod string `yaml:"stop_grace_period"`
	}
	Configs map[string]struct{ File, Content string }
	Volumes map[string]*struct{}
}

// TestCompose reads deploy/compose.yaml as Compose does. Everything that a service refers to exists. Forewarm accepts
// its environment, promtool and amtool accept their configurations, and Grafana gets the dashboards.
func TestCompose(t *testing.T) {
	var c compose
	readStrict(t, "compose.yaml", &c)
	used := map[string]bool{}
	for name, s := range c.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s is not hardened", name)
		}
		for _, x := range s.Configs {
			used[x.Source] = true
			if _, ok := c.Configs[x.Source]; !ok || !filepath.IsAbs(x.Target) {
				t.Errorf("%s: config %q at %q", name, x.Source, x.Target)
			}
		}
		for _, x := range s.Volumes {
			volume, target, _ := strings.Cut(x, ":")
			_, named := c.Volumes[volume]
			_, err := os.Stat(filepath.Join("../../deploy", volume))
			if mounted := strings.HasPrefix(volume, "./") && strings.HasSuffix(target, ":ro") && err == nil; !named && !mounted || !filepath.IsAbs(target) {
				t.Errorf("%s: volume %q (%v)", name, x, err)
			}
			used[volume] = true
		}
		for _, x := range s.Ports {
			if !regexp.MustCompile(`^127\.0\.0\.1:\d+:\d+$`).MatchString(x) {
				t.Errorf("%s: port %q is published beyond 127.0.0.1", name, x)
			}
		}
		for other := range s.DependsOn {
			if c.Services[other].Healthcheck == nil {
				t.Errorf("%s depends on %s, which has no health check", name, other)
			}
		}
	}
	for name, config := range c.Configs {
		if _, err := os.Stat(filepath.Join("../../deploy", config.File)); err != nil || !used[name] {
			t.Errorf("config %s: %v, or no service uses it", name, err)
		}
	}
	for key, value := range c.Services["forewarm"].Environment {
		t.Setenv(key, value)
	}
	cfg := must(config.Load(filepath.Join("../../deploy", c.Configs["forewarm"].File)))
	if urls := cfg.Sinks.Alertmanager.URLs; len(urls) != 1 || urls[0] != "http://alertmanager:9093" || cfg.Storage.Dir != "/data" || cfg.NATS.URL != "nats://nats:4222" {
		t.Errorf("Alertmanager at %q, data in %q, NATS at %q", urls, cfg.Storage.Dir, cfg.NATS.URL)
	}

	const rulesAt = "/etc/prometheus/forewarm.yaml"
	here := must(filepath.Abs(rulesFile))
	if m := c.Services["prometheus"].Configs; len(m) != 2 || m[1].Target != rulesAt || filepath.Join("../../deploy", c.Configs[m[1].Source].File) != rulesFile {
		t.Errorf("Prometheus has the configs %v", m)
	}
	for name, tool := range map[string][]string{
		"prometheus":   {testenv.Program(t, "prometheus", "promtool"), "check", "config"},
		"alertmanager": {testenv.Program(t, "prometheus-alertmanager", "amtool"), "check-config"},
	} {
		file := testenv.WriteFile(t, filepath.Join(t.TempDir(), "config.yml"), strings.ReplaceAll(c.Configs[name].Content, rulesAt, here))
		if out, err := exec.CommandContext(t.Context(), tool[0], append(tool[1:], file)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	known := map[string]bool{}
	for _, r := range readRules(t) {
		known[r.Alert] = true
	}
	for _, name := range regexp.MustCompile(`Forewarm[A-Z]\w+`).FindAllString(c.Configs["prometheus"].Content, -1) {
		if !known[name] {
			t.Errorf("Prometheus forwards %s, but there is no such alert", name)
		}
	}

	// Provisioning of Grafana: docs/sources/administration/provisioning of its repository.
	var source struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool              `yaml:"isDefault"`
			JSONData                     map[string]string `yaml:"jsonData"`
		}
	}
	var provider struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type string
			Options            struct{ Path string }
		}
	}
	for name, v := range map[string]any{"grafana-datasource": &source, "grafana-dashboards": &provider} {
		if err := yaml.NewDecoder(strings.NewReader(c.Configs[name].Content), yaml.Strict()).Decode(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := provider.Providers[0].Options.Path
	if !slices.Contains(c.Services["grafana"].Volumes, "./grafana:"+path+":ro") || source.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("Grafana reads dashboards in %s, and queries %s", path, source.Datasources[0].URL)
	}
	if home := c.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]; home != path+"/fleet.json" {
		t.Errorf("Grafana starts with %s", home)
	}
}

// TestUnit checks the systemd unit, and its security, with systemd-analyze.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip(err) // optional also in CI
	}
	text := must(os.ReadFile("../../deploy/systemd/forewarm.service"))
	const program = "/usr/local/bin/forewarm"
	unit := testenv.WriteFile(t, filepath.Join(t.TempDir(), "forewarm.service"), strings.ReplaceAll(string(text), program, "/bin/true"))
	for _, args := range [][]string{{"verify", "--man=no", unit}, {"security", "--offline=true", "--no-pager", "--threshold=20", unit}} {
		if out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// adapterRule is a rule of prometheus-adapter (kubernetes-sigs/prometheus-adapter, docs/config.md and
// docs/externalmetrics.md).
type adapterRule struct {
	SeriesQuery   string `yaml:"seriesQuery"`
	SeriesFilters []struct {
		Is    string
		IsNot string `yaml:"isNot"`
	} `yaml:"seriesFilters"`
	MetricsQuery string                       `yaml:"metricsQuery"`
	Name         struct{ Matches, As string } `yaml:"name"`
	Resources    struct {
		Template   string
		Namespaced *bool
		Overrides  map[string]struct{ Group, Resource string }
	}
}

// TestAdapterRules: the rules have only keys of prometheus-adapter, and make the metric that the HPA asks for.
// TestManifestQueries of server tests their queries.
func TestAdapterRules(t *testing.T) {
	var values struct {
		Rules struct{ External []adapterRule }
	}
	readStrict(t, "keda/prometheus-adapter.yaml", &values)
	var hpa struct {
		Spec struct {
			Metrics []struct {
				External struct{ Metric struct{ Name string } }
			}
		}
	}
	if err := yaml.Unmarshal(must(os.ReadFile("../../deploy/keda/hpa.yaml")), &hpa); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{hpa.Spec.Metrics[0].External.Metric.Name: true}
	for _, r := range values.Rules.External {
		series, _, _ := strings.Cut(r.SeriesQuery, "{")
		matches, err := regexp.Compile(r.Name.Matches)
		if err != nil || !matches.MatchString(series) || !asked[r.Name.As] {
			t.Errorf("%s becomes %q, but the HPA asks for %v (%v)", series, r.Name.As, asked, err)
		}
		delete(asked, r.Name.As)
		if overridden := len(r.Resources.Overrides) > 0; overridden == (r.Resources.Namespaced != nil && !*r.Resources.Namespaced) {
			t.Errorf("%s: want either resources.overrides, or namespaced: false", series)
		}
	}
	if len(asked) > 0 {
		t.Errorf("no rule makes %v", asked)
	}
}

// TestContainerIsReached: the listen addresses of the Dockerfile accept connections from outside the container, which
// those on loopback do not. It exposes their ports.
func TestContainerIsReached(t *testing.T) {
	text := must(os.ReadFile("../../Dockerfile"))
	for _, variable := range []string{"FOREWARM_NATS_EMBEDDED_LISTEN", "FOREWARM_SERVER_LISTEN"} {
		m := regexp.MustCompile(variable + `=(\S+:(\d+))`).FindSubmatch(text)
		if m == nil || !httpguard.IsOpen(string(m[1])) || !regexp.MustCompile(`(?m)^EXPOSE .*\b`+string(m[2])+`\b`).Match(text) {
			t.Errorf("%s is %q, or its port is not exposed", variable, m)
		}
	}
	for address, want := range map[string]bool{"127.0.0.1:4222": false, "[::1]:4222": false, "localhost:4222": false, "": false, "0.0.0.0:4222": true, "[::]:4317": true, "forewarm:4222": true} {
		if httpguard.IsOpen(address) != want {
			t.Errorf("%q is open: %t", address, !want)
		}
	}
}
