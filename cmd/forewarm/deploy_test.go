package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/forewarm/forewarm/internal/testenv"
)

// readStrict reads a file of deploy into v, where an unknown key is an error.
func readStrict(t *testing.T, file string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// compose is the part of a Compose file that deploy/compose.yaml has (compose-spec, 05-services.md, 07-volumes.md,
// 08-configs.md); content of a config is Compose 2.23.1 and later.
type compose struct {
	Name     string
	Services map[string]struct {
		Build           struct{ Context string }
		Image           string
		Restart         string
		ReadOnly        bool     `yaml:"read_only"`
		CapDrop         []string `yaml:"cap_drop"`
		SecurityOpt     []string `yaml:"security_opt"`
		Environment     map[string]string
		Configs         []struct{ Source, Target string }
		Volumes         []string
		Ports           []string
		StopGracePeriod string `yaml:"stop_grace_period"`
	}
	Configs map[string]struct{ File, Content string }
	Volumes map[string]*struct{}
}

// TestCompose reads deploy/compose.yaml as Compose does: each part that a service names is there, Forewarm takes its
// environment, and Prometheus' and Alertmanager's own tools take their configurations.
func TestCompose(t *testing.T) {
	var c compose
	readStrict(t, "compose.yaml", &c)
	for name, s := range c.Services {
		for _, x := range s.Configs {
			if _, ok := c.Configs[x.Source]; !ok || !filepath.IsAbs(x.Target) {
				t.Errorf("%s: config %q at %q", name, x.Source, x.Target)
			}
		}
		for _, x := range s.Volumes {
			volume, target, _ := strings.Cut(x, ":")
			if _, ok := c.Volumes[volume]; !ok || !filepath.IsAbs(target) {
				t.Errorf("%s: volume %q", name, x)
			}
		}
		for _, x := range s.Ports {
			if !regexp.MustCompile(`^127\.0\.0\.1:\d+:\d+$`).MatchString(x) {
				t.Errorf("%s: port %q is not published to this machine only", name, x)
			}
		}
	}
	for key, value := range c.Services["forewarm"].Environment {
		t.Setenv(key, value)
	}
	cfg, err := loadConfig(filepath.Join("../../deploy", c.Configs["forewarm"].File), "")
	if err != nil {
		t.Fatal(err)
	}
	if urls := cfg.Sinks.Alertmanager.URLs; len(urls) != 1 || urls[0] != "http://alertmanager:9093" || cfg.Storage.Dir != "/data" {
		t.Errorf("Alertmanager at %q, data in %q", urls, cfg.Storage.Dir)
	}
	for name, tool := range map[string][]string{
		"prometheus":   {testenv.Program(t, "prometheus", "promtool"), "check", "config"},
		"alertmanager": {testenv.Program(t, "prometheus-alertmanager", "amtool"), "check-config"},
	} {
		file := writeFile(t, filepath.Join(t.TempDir(), "config.yml"), c.Configs[name].Content)
		if out, err := exec.CommandContext(t.Context(), tool[0], append(tool[1:], file)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// adapterRule is a rule of prometheus-adapter (kubernetes-sigs/prometheus-adapter, docs/config.md and docs/externalmetrics.md).
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

// TestAdapterRules: rules have keys that prometheus-adapter knows, and make the metrics that our autoscalers ask for. Their
// queries are tested in server.
func TestAdapterRules(t *testing.T) {
	var values struct {
		Rules struct{ External []adapterRule }
	}
	readStrict(t, "keda/prometheus-adapter.yaml", &values)
	asked := map[string]bool{}
	for _, file := range []string{"hpa.yaml", "hpa-wva.yaml"} {
		var hpa struct {
			Spec struct {
				Metrics []struct {
					External struct{ Metric struct{ Name string } }
				}
			}
		}
		text, err := os.ReadFile(filepath.Join("../../deploy/keda", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &hpa); err != nil {
			t.Fatal(err)
		}
		asked[hpa.Spec.Metrics[0].External.Metric.Name] = true
	}
	for _, r := range values.Rules.External {
		series, _, _ := strings.Cut(r.SeriesQuery, "{")
		matches, err := regexp.Compile(r.Name.Matches)
		if err != nil || !matches.MatchString(series) || !asked[r.Name.As] {
			t.Errorf("%s becomes %q, and autoscalers ask for %v (%v)", series, r.Name.As, asked, err)
		}
		delete(asked, r.Name.As)
		if overridden := len(r.Resources.Overrides) > 0; overridden == (r.Resources.Namespaced != nil && !*r.Resources.Namespaced) {
			t.Errorf("%s: it belongs to a namespace, or to none", series)
		}
	}
	if len(asked) > 0 {
		t.Errorf("no rule makes %v", asked)
	}
}

// TestContainerIsReached reads the Dockerfile. Its listen addresses must accept connections from outside the container,
// and it must expose their ports. An address on loopback does not accept them.
func TestContainerIsReached(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"FOREWARM_NATS_EMBEDDED_LISTEN", "FOREWARM_SERVER_LISTEN"} {
		m := regexp.MustCompile(variable + `=(\S+:(\d+))`).FindSubmatch(text)
		if m == nil || !isOpen(string(m[1])) || !regexp.MustCompile(`(?m)^EXPOSE .*\b`+string(m[2])+`\b`).Match(text) {
			t.Errorf("%s is %q, or its port is not exposed", variable, m)
		}
	}
	for address, want := range map[string]bool{"127.0.0.1:4222": false, "[::1]:4222": false, "localhost:4222": false, "": false, "0.0.0.0:4222": true, "[::]:4317": true, "forewarm:4222": true} {
		if isOpen(address) != want {
			t.Errorf("%q is open: %t", address, !want)
		}
	}
}
