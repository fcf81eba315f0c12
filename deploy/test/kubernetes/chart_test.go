// Package kubernetes checks the Helm chart and the Kustomize base with the code of Helm and Kustomize, the types of the
// Kubernetes API and of the Prometheus Operator, and Forewarm's check of its configuration.
package kubernetes

import (
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../helm/forewarm"

// trial is one daemon with an embedded NATS server.
const trial = `
replicas: 1
config: {nats: {url: ""}}
persistence: {enabled: false}
networkPolicy: {enabled: false}`

func full(t *testing.T) string { return read(t, "testdata/full.yaml") }

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// template is helm template: the rendered files of the chart by name.
func template(values string) (map[string]string, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	v, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "forewarm", Namespace: "forewarm", IsInstall: true}
	v, err = chartutil.ToRenderValues(chart, v, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, v)
}

// object is one Kubernetes object, as text and as the type of its kind. typed is nil for kinds without a type here.
type object struct {
	kind, name string
	labels     map[string]string
	text       string
	typed      any
}

// types of the API, by kind. ScaledObjects are checked in deploy/test/keda, and TestScaledObjects compares ours with
// those.
var types = map[string]func() any{
	"apps/v1 Deployment":                      func() any { return new(apps.Deployment) },
	"apps/v1 StatefulSet":                     func() any { return new(apps.StatefulSet) },
	"v1 ConfigMap":                            func() any { return new(core.ConfigMap) },
	"v1 Pod":                                  func() any { return new(core.Pod) },
	"v1 Service":                              func() any { return new(core.Service) },
	"v1 ServiceAccount":                       func() any { return new(core.ServiceAccount) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	"keda.sh/v1alpha1 ScaledObject":           nil,
}

// decode reads the objects of text. A key that the type of the kind does not have is an error.
func decode(t *testing.T, text string) (all []object) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var head struct {
			meta.TypeMeta
			Metadata meta.ObjectMeta
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if head.Kind == "" && strings.Trim(document, "\n ") == "" {
			continue
		}
		make, ok := types[head.APIVersion+" "+head.Kind]
		if !ok {
			t.Fatalf("no type for %s %q:\n%s", head.APIVersion, head.Kind, document)
		}
		o := object{kind: head.Kind, name: head.Metadata.Name, labels: head.Metadata.Labels, text: document}
		if make != nil {
			o.typed = make()
			if err := yaml.UnmarshalStrict([]byte(document), o.typed); err != nil {
				t.Errorf("%s %s: %v", o.kind, o.name, err)
			}
		}
		all = append(all, o)
	}
	return all
}

// chart returns the objects of the chart and its notes.
func chart(t *testing.T, values string) (all []object, notes string) {
	t.Helper()
	files, err := template(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = files[name]
			continue
		}
		all = append(all, decode(t, files[name])...)
	}
	return all, notes
}

// of returns the objects that have the type T.
func of[T any](all []object) (out []*T) {
	for _, o := range all {
		if x, ok := o.typed.(*T); ok {
			out = append(out, x)
		}
	}
	return out
}

// TestLint is helm lint --strict.
func TestLint(t *testing.T) {
	for name, text := range map[string]string{"default": "", "trial": trial, "full": full(t)} {
		values, err := chartutil.ReadValues([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.AllWithKubeVersion(chartDir, values, "forewarm", nil).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestChart renders the chart and checks its objects, and that they fit together.
func TestChart(t *testing.T) {
	everywhere := []string{"ConfigMap", "Pod", "Service", "Service", "ServiceAccount", "StatefulSet"}
	for name, x := range map[string]struct {
		values string
		kinds  []string // in addition to those that are always there
		notes  []string
	}{
		"default": {"", []string{"NetworkPolicy", "PodDisruptionBudget"}, []string{"2 daemons, advisory mode, NATS nats://nats:4222", "config.pools is empty", "forewarm.forewarm.svc.cluster.local:9465", "helm -n forewarm test forewarm"}},
		"trial":   {trial, nil, []string{"1 daemon, advisory mode, NATS inside the daemon", "nats://forewarm.forewarm.svc:4222", "This is for a trial"}},
		"full": {full(t), []string{"NetworkPolicy", "PodDisruptionBudget", "ConfigMap", "ConfigMap", "ConfigMap", "PrometheusRule", "ScaledObject", "ScaledObject", "ServiceMonitor"},
			[]string{"3 daemons, active mode, NATS nats://nats.nats.svc:4222"}},
	} {
		t.Run(name, func(t *testing.T) {
			all, notes := chart(t, x.values)
			var kinds []string
			for _, o := range all {
				kinds = append(kinds, o.kind)
			}
			want := append(slices.Clone(everywhere), x.kinds...)
			slices.Sort(kinds)
			slices.Sort(want)
			if !slices.Equal(kinds, want) {
				t.Errorf("objects %v, want %v", kinds, want)
			}
			for _, part := range x.notes {
				if !strings.Contains(notes, part) {
					t.Errorf("the notes do not have %q:\n%s", part, notes)
				}
			}
			checkObjects(t, all)
			checkConfig(t, all)
		})
	}
}

// checkObjects checks that objects fit together: selectors select the pods of the StatefulSet, and named objects exist.
func checkObjects(t *testing.T, all []object) {
	t.Helper()
	sets := of[apps.StatefulSet](all)
	if len(sets) != 1 {
		t.Fatalf("%d StatefulSets", len(sets))
	}
	set := sets[0]
	pod, container := set.Spec.Template.Spec, set.Spec.Template.Spec.Containers[0]
	selected := func(what string, selector *meta.LabelSelector) {
		s, err := meta.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(labels.Set(set.Spec.Template.Labels)) {
			t.Errorf("%s selects %v, the pods have %v (%v)", what, selector, set.Spec.Template.Labels, err)
		}
	}
	selected("the StatefulSet", set.Spec.Selector)
	for i := range pod.TopologySpreadConstraints {
		selected("the spread", pod.TopologySpreadConstraints[i].LabelSelector)
	}
	for _, o := range of[policy.PodDisruptionBudget](all) {
		selected(o.Name, o.Spec.Selector)
	}

	ports := map[string]int32{}
	for _, p := range container.Ports {
		if problems := validation.IsValidPortName(p.Name); len(problems) > 0 || ports[p.Name] != 0 {
			t.Errorf("port %s is invalid (%v) or occurs twice", p.Name, problems)
		}
		ports[p.Name] = p.ContainerPort
	}
	for _, o := range of[networking.NetworkPolicy](all) {
		selected(o.Name, &o.Spec.PodSelector)
		open := map[string]int32{}
		for _, p := range o.Spec.Ingress[0].Ports {
			open[p.Port.StrVal] = ports[p.Port.StrVal]
		}
		if !maps.Equal(open, ports) || len(o.Spec.Ingress[0].From) == 0 {
			t.Errorf("the network policy allows %v to %v, the container listens on %v", o.Spec.Ingress[0].From, open, ports)
		}
		if egress := slices.Contains(o.Spec.PolicyTypes, networking.PolicyTypeEgress); egress != (len(o.Spec.Egress) > 0) {
			t.Errorf("policy types %v with %d egress rules", o.Spec.PolicyTypes, len(o.Spec.Egress))
		}
	}
	headless := false
	for _, o := range of[core.Service](all) {
		selected(o.Name, &meta.LabelSelector{MatchLabels: o.Spec.Selector})
		headless = headless || o.Name == set.Spec.ServiceName && o.Spec.ClusterIP == core.ClusterIPNone
		for _, p := range o.Spec.Ports {
			if ports[p.TargetPort.StrVal] != p.Port {
				t.Errorf("service %s has %s at %d, the container at %d", o.Name, p.Name, p.Port, ports[p.TargetPort.StrVal])
			}
		}
		if o.Name != set.Spec.ServiceName && len(o.Spec.Ports) != len(ports) {
			t.Errorf("service %s has %d of %d ports", o.Name, len(o.Spec.Ports), len(ports))
		}
	}
	if !headless {
		t.Errorf("there is no headless service %s, which the StatefulSet names", set.Spec.ServiceName)
	}
	for _, o := range of[monitoring.ServiceMonitor](all) {
		found := 0
		selector, err := meta.LabelSelectorAsSelector(&o.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range of[core.Service](all) {
			if selector.Matches(labels.Set(s.Labels)) {
				found++
			}
		}
		if found != 1 || len(o.Spec.Endpoints) != 1 || ports[o.Spec.Endpoints[0].Port] == 0 {
			t.Errorf("the ServiceMonitor selects %d services, with the endpoints %v", found, o.Spec.Endpoints)
		}
	}

	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if s := v.Secret; s != nil && (s.DefaultMode == nil || *s.DefaultMode != 0o440) {
			t.Errorf("the Secret %s is mounted with the mode %v", s.SecretName, s.DefaultMode)
		}
		if source := v.ConfigMap; v.Name == "config" && !slices.ContainsFunc(all, func(o object) bool {
			return o.kind == "ConfigMap" && source != nil && o.name == source.Name
		}) {
			t.Errorf("the configuration is from %v, which does not exist", source)
		}
	}
	for i := range set.Spec.VolumeClaimTemplates {
		volumes[set.Spec.VolumeClaimTemplates[i].Name] = true
	}
	mounts := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounts[m.MountPath] = m.Name
		if !volumes[m.Name] {
			t.Errorf("%s mounts %s, which is not a volume", m.MountPath, m.Name)
		}
		delete(volumes, m.Name)
		if m.ReadOnly == (m.MountPath == "/data") {
			t.Errorf("%s: read only is %t", m.MountPath, m.ReadOnly)
		}
	}
	if len(volumes) > 0 {
		t.Errorf("volumes %v are not mounted", volumes)
	}
	for _, p := range []*core.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if p == nil || p.HTTPGet == nil || ports[p.HTTPGet.Port.StrVal] != 9463 {
			t.Errorf("probe %v", p)
		}
	}
	if container.LivenessProbe.HTTPGet.Path != "/healthz" || container.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Error("probes do not have the paths /healthz and /readyz")
	}
	checkRestricted(t, &pod)
	for _, o := range of[core.Pod](all) {
		checkRestricted(t, &o.Spec)
	}
}

// checkRestricted checks that a pod obeys the Pod Security Standard "restricted", and has a read-only file system and
// no token.
func checkRestricted(t *testing.T, pod *core.PodSpec) {
	t.Helper()
	is := func(b *bool, want bool) bool { return b != nil && *b == want }
	if s := pod.SecurityContext; s == nil || !is(s.RunAsNonRoot, true) || s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || !is(pod.AutomountServiceAccountToken, false) {
		t.Errorf("the pod is not restricted: %v", s)
	}
	for _, c := range pod.Containers {
		if s := c.SecurityContext; s == nil || !is(s.AllowPrivilegeEscalation, false) || !is(s.ReadOnlyRootFilesystem, true) || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
			t.Errorf("container %s is not restricted: %v", c.Name, s)
		}
	}
}

// forewarm builds the program, once.
var forewarm = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "forewarm")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", dir, "./cmd/forewarm")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "forewarm"), nil
})

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Helm logs each symbolic link
	code := m.Run()
	if program, err := forewarm(); err == nil {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// checkConfig checks the configuration with Forewarm as in the container, with its environment. Paths in mounted
// Secrets are replaced by those of temporary directories.
func checkConfig(t *testing.T, all []object) {
	t.Helper()
	set := of[apps.StatefulSet](all)[0]
	container := set.Spec.Template.Spec.Containers[0]
	config := ""
	for _, o := range of[core.ConfigMap](all) {
		if text, ok := o.Data["forewarm.yaml"]; ok {
			config = text
		}
	}
	if !slices.Equal(container.Args, []string{"serve", "-config", "/etc/forewarm/forewarm.yaml"}) {
		t.Errorf("the container runs %q", container.Args)
	}
	var environment []string
	for _, e := range container.Env {
		environment = append(environment, e.Name+"="+e.Value)
	}
	for _, m := range container.VolumeMounts {
		if m.Name != "config" && m.Name != "data" {
			config = strings.ReplaceAll(config, m.MountPath+"/", t.TempDir()+"/")
		}
	}
	check(t, config, environment)
}

// check runs forewarm check -offline.
func check(t *testing.T, config string, environment []string) {
	t.Helper()
	program, err := forewarm()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "forewarm.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "check", "-offline", "-config", file)
	cmd.Env = environment
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s", err, out, config)
	}
}

// TestChartRefuses: values that the schema or the templates of the chart refuse.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"replica: 3":                             "additional properties 'replica' not allowed",
		"replicas: 0":                            "minimum: got 0, want 1",
		"image: {digest: latest}":                "does not match pattern",
		"config: {storage: {dir: /tmp}}":         "/config/storage",
		"config: {server: {listen: 0.0.0.0:80}}": "/config/server",
		"config: {decision: {mode: aktive}}":     "must be one of",
		"config: {nats: {url: ''}}":              "several daemons need one NATS server",
		"scaledObjects: [{pool: chat}]":          "missing properties",
		"persistence: {size: huge}":              "does not match pattern",
		"scaledObjects: [{pool: a, deployment: b, fallbackReplicas: 1}]": "config.pools has no pool a",
	} {
		if _, err := template(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// TestRules: the PrometheusRule has the rules of deploy/rules, key for key.
func TestRules(t *testing.T) {
	all, _ := chart(t, "prometheusRule: {enabled: true}")
	var want monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(read(t, "../../rules/forewarm.yaml")), &want); err != nil {
		t.Fatal(err)
	}
	if rules := of[monitoring.PrometheusRule](all); len(rules) != 1 || len(want.Groups) == 0 || !reflect.DeepEqual(rules[0].Spec, want) {
		t.Errorf("the PrometheusRule differs from deploy/rules/forewarm.yaml")
	}
}

// TestDashboards: the ConfigMaps have the dashboards of deploy/grafana, byte for byte except for a line feed at the
// end.
func TestDashboards(t *testing.T) {
	all, _ := chart(t, "dashboards: {enabled: true}")
	files, err := filepath.Glob("../../grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %d dashboards", err, len(files))
	}
	for _, file := range files {
		name := filepath.Base(file)
		found := slices.ContainsFunc(of[core.ConfigMap](all), func(m *core.ConfigMap) bool {
			return m.Labels["grafana_dashboard"] == "1" && strings.TrimSpace(m.Data["forewarm-"+name]) == strings.TrimSpace(read(t, file))
		})
		if !found {
			t.Errorf("no ConfigMap has %s", name)
		}
	}
}

// TestPackage: a packaged chart has the files to which symbolic links point.
func TestPackage(t *testing.T) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := chartutil.Save(chart, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if chart, err = loader.Load(archive); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, f := range chart.Files {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	if want := []string{"files/dashboards/fleet.json", "files/dashboards/pool.json", "files/dashboards/quality.json", "files/rules.yaml"}; !slices.Equal(names, want) {
		t.Errorf("the package has %v, want %v", names, want)
	}
}

// TestScaledObjects: the chart's ScaledObjects are those of deploy/keda, which are checked against KEDA's schema.
func TestScaledObjects(t *testing.T) {
	spec := func(text string) (s map[string]any) {
		var object struct {
			Metadata meta.ObjectMeta
			Spec     map[string]any
		}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		return object.Spec
	}
	_, example, _ := strings.Cut(read(t, "../../keda/external-push.yaml"), "\n---\n")
	all, _ := chart(t, full(t))
	for _, o := range all {
		if o.kind != "ScaledObject" {
			continue
		}
		got, want := spec(o.text), spec(example)
		if o.name == "split-prefill" { // the same with other names, bounds and role
			for text, other := range map[string]string{
				"    name: chat": "    name: split-prefill", "pool: chat": "pool: split", "role: all": "role: prefill",
				"minReplicaCount: 1": "minReplicaCount: 2", "maxReplicaCount: 16": "maxReplicaCount: 8", "value: 16": "value: 8", "replicas: 4": "replicas: 2",
				"      authenticationRef:\n        name: forewarm": "",
			} {
				if !strings.Contains(example, text) {
					t.Errorf("the example has no %q", text)
				}
				example = strings.ReplaceAll(example, text, other)
			}
			want = spec(example)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is\n%v\nwant\n%v", o.name, got, want)
		}
	}
}
