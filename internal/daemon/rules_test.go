package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

// silent is the configuration of an Alertmanager that notifies nobody.
const silent = "route: {receiver: none}\nreceivers: [{name: none}]"

const (
	rulesFile  = "../../deploy/rules/forewarm.yaml"
	runbookDir = "../../deploy/runbooks"
)

// rule is one alert of the rules file.
type rule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func readRules(t *testing.T) (rules []rule) {
	t.Helper()
	text := must(os.ReadFile(rulesFile))
	var file struct {
		Groups []struct {
			Rules []rule
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// TestRules runs the tests of the rules with promtool. Each alert has a test in which it fires.
func TestRules(t *testing.T) {
	promtool := testenv.Program(t, "prometheus", "promtool")
	for _, args := range [][]string{{"check", "rules", filepath.Base(rulesFile)}, {"test", "rules", "forewarm_test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = filepath.Dir(rulesFile)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tests := must(os.ReadFile(filepath.Join(filepath.Dir(rulesFile), "forewarm_test.yaml")))
	for _, r := range readRules(t) {
		if !strings.Contains(string(tests), "alertname: "+r.Alert+"\n") {
			t.Errorf("%s has no test in which it fires", r.Alert)
		}
	}
}

// TestRulesInPrometheus: a real Prometheus scrapes a daemon whose pool becomes saturated, evaluates the rules, and
// notifies a real Alertmanager. The rules have no waiting times (for) here, because promtool tests them.
func TestRulesInPrometheus(t *testing.T) {
	t.Parallel()
	alertmanager := testenv.StartAlertmanager(t, silent).URL
	p := startDaemon(t, "clock: event", "features: {lateness: 0s}", "decision: {mode: active}",
		"pools: [{name: chat, decode_tokens_per_s: 400, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 9}}]")
	text := must(os.ReadFile(rulesFile))
	rulesWithoutFor := testenv.WriteFile(t, filepath.Join(t.TempDir(), "rules.yaml"), regexp.MustCompile(`(?m)^ +for: \w+\n`).ReplaceAllString(string(text), ""))
	prometheus := testenv.StartPrometheus(t, []string{
		"global: {scrape_interval: 1s, evaluation_interval: 1s}", "rule_files: [" + rulesWithoutFor + "]",
		"alerting: {alertmanagers: [{static_configs: [{targets: ['" + strings.TrimPrefix(alertmanager, "http://") + "']}]}]}",
		"scrape_configs: [{job_name: forewarm, static_configs: [{targets: ['" + strings.TrimPrefix(p.base, "http://") + "']}]}]",
	}, t.TempDir(), "", "--rules.alert.resend-delay=1s")
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for m := range 80 {
		perMinute := 30 + max(0, m-60)*6
		p.publishMinute(t, "chat.talk", start.Add(time.Duration(m)*time.Minute), perMinute, 100, 400)
		p.publish(t, "forewarm.telemetry.replica.chat.chat-0", fmt.Appendf(nil, `{"at":%d,"state":"ready"}`, start.Add(time.Duration(m)*time.Minute+59*time.Second).UnixMilli()))
	}
	p.settle(t)
	awaitAlerts(t, alertmanager, map[string]string{"ForewarmTooLateToWarm": "Pool chat: it runs out within a minute", "ForewarmPrometheusWatchdog": "Always firing"})
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	n := 0
	_, body := testenv.Get(prometheus.URL + "/api/v1/rules")
	if err := json.Unmarshal([]byte(body), &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Data.Groups {
		for _, r := range g.Rules {
			if n++; r.Health != "ok" {
				t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if n != len(readRules(t)) {
		t.Errorf("Prometheus has %d rules, the file has %d", n, len(readRules(t)))
	}
}

// TestAlertmanagerExample checks the example, and its routes, with amtool.
func TestAlertmanagerExample(t *testing.T) {
	amtool := testenv.Program(t, "prometheus-alertmanager", "amtool")
	example := filepath.Join(filepath.Dir(rulesFile), "alertmanager.example.yaml")
	if out, err := exec.Command(amtool, "check-config", example).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for labels, want := range map[string]string{
		"alertname=ForewarmWatchdog severity=none":                           "dead-mans-switch-forewarm",
		"alertname=ForewarmPrometheusWatchdog severity=none":                 "dead-mans-switch-prometheus",
		"alertname=ForewarmTooLateToWarm pool=a severity=page":               "on-call",
		"alertname=ForewarmTooLateToWarm pool=a severity=page mode=advisory": "team-chat",
		"alertname=ForewarmSaturationAhead pool=a severity=warning":          "team-chat",
	} {
		out, err := exec.Command(amtool, append([]string{"config", "routes", "test", "--config.file=" + example}, strings.Fields(labels)...)...).Output()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s goes to %q, want %s (%v)", labels, out, want, err)
		}
	}
}

// TestRulesKnowTheirMetrics: each metric of a rule is exported. Otherwise the rule never fires.
func TestRulesKnowTheirMetrics(t *testing.T) {
	var exported strings.Builder
	for _, file := range []string{"counters.go", "../../server/gauges.go", "../../server/metrics.go"} {
		text := must(os.ReadFile(file))
		exported.Write(text)
	}
	metric := regexp.MustCompile(`forewarm_[a-z_]+`)
	for _, r := range readRules(t) {
		for _, name := range metric.FindAllString(r.Expr+strings.Join(slices.Collect(maps.Values(r.Annotations)), " "), -1) {
			if !regexp.MustCompile("[\"`]" + name + "[\"`{]").MatchString(exported.String()) {
				t.Errorf("%s: no metric is called %s", r.Alert, name)
			}
		}
	}
}

// TestEveryAlertHasARunbook: each alert of Forewarm and of the rules has a page with the same five sections, and links
// to it.
func TestEveryAlertHasARunbook(t *testing.T) {
	names := map[string]bool{}
	for _, name := range alerting.AlertNames {
		names[string(name)] = true
	}
	for _, r := range readRules(t) {
		names[r.Alert] = true
		if want := strings.ReplaceAll(alerting.DefaultConfig().RunbookURL, "{alert}", r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s links %q, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s has no severity or no summary", r.Alert)
		}
	}
	if !strings.HasSuffix(alerting.DefaultConfig().RunbookURL, "/deploy/runbooks/{alert}.md") {
		t.Errorf("the default of runbook_url is %s, but the pages are in deploy/runbooks", alerting.DefaultConfig().RunbookURL)
	}
	for name := range names {
		page, err := os.ReadFile(filepath.Join(runbookDir, name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(page)
		if !strings.HasPrefix(text, "# "+name+"\n") {
			t.Errorf("%s.md has another title", name)
		}
		for _, section := range []string{"What it means", "What was already done", "What to check", "What to do", "When to ignore it"} {
			_, after, ok := strings.Cut(text, "\n## "+section+"\n\n")
			if body, _, _ := strings.Cut(after, "\n## "); !ok || len(body) < 20 {
				t.Errorf("%s.md has no section %q", name, section)
			}
		}
	}
	pages := must(os.ReadDir(runbookDir))
	for _, p := range pages {
		if name := strings.TrimSuffix(p.Name(), ".md"); !names[name] {
			t.Errorf("%s: there is no such alert", p.Name())
		}
	}
}
