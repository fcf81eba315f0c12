package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/storage/stream"
)

// cluster is a Kubernetes API that lists objects.
type cluster struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]map[string]any // by kind and name
	absent  string                    // a resource that is not installed
}

func newCluster(t *testing.T, absent string) *cluster {
	c := &cluster{objects: map[string]map[string]any{}, absent: absent}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

// set adds or replaces an object in YAML.
func (c *cluster) set(t *testing.T, text string) {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[fmt.Sprint(o["kind"], o["metadata"].(map[string]any)["name"])] = o
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	items := []any{}
	for _, k := range discoveredKinds {
		for _, o := range c.objects {
			if _, resource, _ := strings.Cut(k.path, "%s"); strings.HasSuffix(r.URL.Path, resource) && o["kind"] == k.kind {
				items = append(items, map[string]any{"metadata": o["metadata"], "spec": o["spec"]}) // without a kind, as in the real API
			}
		}
	}
	if strings.HasSuffix(r.URL.Path, "/"+c.absent) {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
}

// logged reports whether discovery logged a text.
func logged(p *process, text string) bool {
	return strings.Contains(strings.ReplaceAll(p.out.String(), `\"`, `"`), text)
}

func scaledObject(name, pool, more string, most int) string {
	return fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %s, namespace: llm, creationTimestamp: "2026-03-01T00:00:00Z", annotations: {forewarm.dev/pool: %s, %s}}
spec: {scaleTargetRef: {name: chat}, minReplicaCount: 1, maxReplicaCount: %d, triggers: []}`, name, pool, more, most)
}

// TestDiscover runs two daemons on one log. Annotations add, change and remove a pool; the configuration does not
// change. Both daemons make the same decisions, and one of them is killed once.
func TestDiscover(t *testing.T) {
	t.Parallel()
	c, h := newCluster(t, "horizontalpodautoscalers"), newPair(t, 1)
	address := testenv.FreeAddress(t)
	p := start(t, "discover", "-config", filepath.Join(h.dirs[0], "forewarm.yaml"), "-server", c.URL, "-every", "200ms", "-listen", address)
	defer p.stop(t)
	page := func() string { _, page := testenv.Get("http://" + address + "/metrics"); return page }
	await := func(what, line string) {
		t.Helper()
		testenv.Await(t, what, func() bool { return p.over() || strings.Contains(page(), line) })
	}
	await("discovery", "forewarm_discovery_pools 0")
	if code, _ := testenv.Get("http://" + address + "/readyz"); code != http.StatusOK {
		t.Errorf("/readyz answers %d", code)
	}
	const rates = "forewarm.dev/decode_tokens_per_s: '400', forewarm.dev/warmup: '{p50: 6m, p90: 12m}'"
	begin := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	got := h.play(t, 60, func(h *pair, t *testing.T, m int) {
		switch m {
		case 10:
			c.set(t, scaledObject("chat", "noted", rates, 16))
			await("the pool", "forewarm_discovery_pools 1")
		case 25:
			c.set(t, scaledObject("chat", "noted", rates, 2))
			testenv.Await(t, "the change", func() bool {
				m, err := must(h.js.Stream(t.Context(), "FOREWARM_TELEMETRY")).GetLastMsgForSubject(t.Context(), "forewarm.telemetry.pool.noted")
				return err == nil && strings.Contains(string(m.Data), `"max":2`)
			})
		case 35:
			h.daemons[1].kill(t)
			h.start(t, 1)
		case 40:
			c.mu.Lock()
			clear(c.objects)
			c.mu.Unlock()
			await("the pool to be removed", "forewarm_discovery_pools 0")
		}
		if m < 5 || m > 50 {
			return
		}
		var b strings.Builder
		for i := range 6 + 4*(m%20) {
			fmt.Fprintf(&b, `{"arrived_at":%d,"prompt_tokens":500,"output_tokens":%d}`+"\n", begin.Add(time.Duration(m)*time.Minute+time.Duration(i)*time.Second).UnixMilli(), 600+100*(m%20))
		}
		msg := &nats.Msg{Subject: "forewarm.telemetry.request.noted.chat", Data: []byte(b.String()), Header: nats.Header{"Content-Type": {"application/x-ndjson"}}}
		if _, err := h.js.PublishMsg(t.Context(), msg, natsjs.WithMsgID(fmt.Sprint("n-", m))); err != nil {
			t.Fatal(err)
		}
	})
	if got.divergent > 0 || got.ticks < 60+45 {
		t.Errorf("%d decisions, %d of them differ; want %d or more, and none", got.ticks, got.divergent, 60+45)
	}
	newest, err := stream.NewReader(h.js, jetstream.DecisionsStream, "forewarm").Newest(t.Context())
	if err != nil || len(newest) != 2 || newest[1].Decision.Pool != "noted" || newest[1].Decision.Limit != 2 {
		t.Errorf("%v: the newest decisions are %+v", err, newest)
	}
}

// TestDiscoverFaults: the log names each object that defines no valid pool, and a metric counts it. The other pools
// are published.
func TestDiscoverFaults(t *testing.T) {
	permissions := jetstream.DefaultConfig()
	for _, user := range []string{"FOREWARM", "PRODUCER", "CONSUMER", "DISCOVERY"} {
		t.Setenv(user+"_PASSWORD", "secret")
	}
	url := testenv.StartNATS(t, permissions.Permissions())
	conn, err := nats.Connect(url, nats.UserInfo("forewarm", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jetstream.Ensure(t.Context(), js, permissions); err != nil { // as daemons do
		t.Fatal(err)
	}
	t.Setenv("FOREWARM_NATS_PASSWORD_FILE", testenv.WriteFile(t, filepath.Join(t.TempDir(), "password"), "secret"))
	file := testenv.WriteFile(t, filepath.Join(t.TempDir(), "forewarm.yaml"), "nats: {url: '"+url+"', user: discovery}", "pools: [{name: own, replicas: {max: 4}}]")
	c := newCluster(t, "nothing")
	object := func(kind, name, created, annotations, spec string) string {
		return fmt.Sprintf("kind: %s\nmetadata: {name: %s, namespace: llm, creationTimestamp: %q, annotations: {%s}}\nspec: {%s}\n", kind, name, created, annotations, spec)
	}
	const day1, day2, day3 = "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"
	for _, text := range []string{
		object("HorizontalPodAutoscaler", "chat", day2, "forewarm.dev/pool: chat", "minReplicas: 2, maxReplicas: 8"),
		object("Deployment", "late", day3, "forewarm.dev/pool: chat, forewarm.dev/replicas: '{max: 9}'", "replicas: 3"),
		object("Deployment", "plain", day1, "other: chat", "replicas: 3"),
		object("Deployment", "batch", day1, "forewarm.dev/pool: batch, forewarm.dev/replicas: '{max: 5}', forewarm.dev/kv_dtype: fp8", ""),
		object("Deployment", "nobounds", day1, "forewarm.dev/pool: nobounds", ""),
		object("Deployment", "typo", day1, "forewarm.dev/pool: typo, forewarm.dev/warmpu: '{p50: 3m}', forewarm.dev/replicas: '{max: 5}'", ""),
		object("Deployment", "bomb", day1, "forewarm.dev/pool: bomb, forewarm.dev/types: '[&a [], *a]'", ""),
		object("Deployment", "own", day1, "forewarm.dev/pool: own, forewarm.dev/replicas: '{max: 5}'", ""),
	} {
		c.set(t, text)
	}
	c.set(t, strings.Replace(object("HorizontalPodAutoscaler", "keda-hpa-x", day1, "forewarm.dev/pool: chat", "maxReplicas: 8"), "annotations:",
		"ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: x, uid: u, controller: true}], annotations:", 1))
	address := testenv.FreeAddress(t)
	p := start(t, "discover", "-config", file, "-server", c.URL, "-every", "200ms", "-listen", address, "-namespaces", "llm")
	defer p.stop(t)
	testenv.Await(t, "all pools", func() bool {
		_, page := testenv.Get("http://" + address + "/metrics")
		return p.over() || strings.Contains(page, "forewarm_discovery_pools 2")
	})
	for _, want := range []string{
		`pool "chat" is defined: {"replicas":{"max":8,"min":2}}`, `pool "batch" is defined: {"kv_dtype":"fp8","replicas":{"max":5}}`,
		`defines no pool: pool "chat" is defined by HorizontalPodAutoscaler llm/chat, which is older`, `defines no pool: pool "own" is in the configuration`,
		`defines no pool: pools[nobounds].replicas.max`, `warmpu: unknown key; did you mean "warmup"?`, "must have no anchor",
	} {
		if !logged(p, want) {
			t.Errorf("the log does not say %s:\n%s", want, p.out.String())
		}
	}
	_, page := testenv.Get("http://" + address + "/metrics")
	if !strings.Contains(page, "forewarm_discovery_faults 5") {
		t.Errorf("want 5 faults in\n%s", page)
	}
	// A definition stays in force while its object is malformed.
	c.set(t, object("Deployment", "batch", day1, "forewarm.dev/pool: batch, forewarm.dev/replicas: '{max: none}'", ""))
	testenv.Await(t, "the fault to be logged", func() bool { return logged(p, "replicas.max") && logged(p, `"none"`) })
	testenv.Await(t, "the fault to be counted", func() bool {
		_, page := testenv.Get("http://" + address + "/metrics")
		return strings.Contains(page, "forewarm_discovery_faults 6")
	})
	if _, page := testenv.Get("http://" + address + "/metrics"); !strings.Contains(page, "forewarm_discovery_pools 2") {
		t.Error("the pool of a malformed object was removed")
	}
}

// TestDiscoveryPage: the objects in docs/discovery.md and deploy/keda define pools. The page names each annotation.
func TestDiscoveryPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/discovery.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../deploy/keda/discovered.yaml")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{string(example)}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		texts = append(texts, m[1])
	}
	p, err := config.Default().Pipeline()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, text := range texts {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		kind := discoveredKinds[slices.IndexFunc(discoveredKinds, func(k discovered) bool { return k.kind == o["kind"] })]
		x := &object{discovered: kind}
		if err := json.Unmarshal(text, x); err != nil {
			t.Fatal(err)
		}
		f := evaluate([]*object{x}, nil, p.Define)
		if len(f) != 1 || f[0].err != nil && !strings.Contains(f[0].err.Error(), "model_config") { // default_pool has it
			t.Errorf("%s: %+v", x.title(), f)
		}
		kinds[x.kind] = true
	}
	if len(kinds) != len(discoveredKinds) {
		t.Errorf("examples of %v, want %d kinds", kinds, len(discoveredKinds))
	}
	keys := map[string]bool{"pool": true}
	for f := range reflect.TypeFor[capacity.Config]().Fields() {
		if key := f.Tag.Get("yaml"); key != "name" && key != "model_config" && key != "curve_file" {
			keys[key] = true
		}
	}
	for _, m := range regexp.MustCompile("`forewarm.dev/([a-z0-9_]+)`").FindAllStringSubmatch(string(page), -1) {
		if !keys[m[1]] {
			t.Errorf("%s is not a key of a pool", m[1])
		}
	}
	for key := range keys {
		if !strings.Contains(string(page), "`forewarm.dev/"+key+"`") {
			t.Errorf("the page does not name forewarm.dev/%s", key)
		}
	}
}

// TestDiscoverOtherServer: another server in place of the Kubernetes API has no empty list, which would revoke all pools.
func TestDiscoverOtherServer(t *testing.T) {
	t.Parallel()
	for answer, handler := range map[string]http.HandlerFunc{
		"404 to all lists":  http.NotFound,
		"is no list":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		"invalid character": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		server := httptest.NewServer(handler)
		_, err := must(newKubernetes(server.URL, []string{""})).objects(t.Context())
		server.Close()
		if err == nil || !strings.Contains(err.Error(), answer) {
			t.Errorf("the error is %v, want one with %q", err, answer)
		}
	}
}
