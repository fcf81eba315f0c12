package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	httpconfig "github.com/prometheus/common/config"

	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

const (
	annotationPrefix = "forewarm.dev/"
	annotationPool   = annotationPrefix + "pool"
)

// discovered is a kind of object that may define a pool. bounds are fields of its spec, with their defaults.
type discovered struct {
	kind, path string // path in the Kubernetes API, with %s for the namespace
	bounds     []bound
}

type bound struct {
	key, field string
	unset      int
}

var discoveredKinds = []discovered{
	{"ScaledObject", "/apis/keda.sh/v1alpha1%s/scaledobjects", []bound{{"min", "minReplicaCount", 0}, {"max", "maxReplicaCount", 100}}},
	{"HorizontalPodAutoscaler", "/apis/autoscaling/v2%s/horizontalpodautoscalers", []bound{{"min", "minReplicas", 1}, {"max", "maxReplicas", 0}}},
	{"Deployment", "/apis/apps/v1%s/deployments", nil},
}

// object is what discovery reads of a Kubernetes object.
type object struct {
	discovered `json:"-"`
	Metadata   struct {
		Namespace         string            `json:"namespace"`
		Name              string            `json:"name"`
		CreationTimestamp time.Time         `json:"creationTimestamp"`
		Annotations       map[string]string `json:"annotations"`
		OwnerReferences   []owner           `json:"ownerReferences"`
	} `json:"metadata"`
	Spec map[string]json.RawMessage `json:"spec"`
}

type owner struct {
	Kind       string `json:"kind"`
	Controller bool   `json:"controller"`
}

// title names an object for people.
func (o *object) title() string { return o.kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name }

// kubernetes reads objects from the API.
type kubernetes struct {
	server     string
	namespaces []string // "" is all
	client     *http.Client
}

// maxListBytes bounds an answer; a thousand Deployments have a few MiB.
const maxListBytes = 64 << 20

// serviceAccount is where a pod has its credentials for the API.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"

// newKubernetes reads from a server without credentials, or from that of the pod if it is empty.
func newKubernetes(server string, namespaces []string) (*kubernetes, error) {
	k := &kubernetes{server: strings.TrimSuffix(server, "/"), client: &http.Client{}}
	for _, n := range namespaces {
		k.namespaces = append(k.namespaces, strings.TrimSpace(n))
	}
	if server == "" {
		host := os.Getenv("KUBERNETES_SERVICE_HOST")
		if host == "" {
			return nil, fmt.Errorf("KUBERNETES_SERVICE_HOST is not set: run it in a pod, or name a server with -server")
		}
		k.server = "https://" + net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT"))
		var err error
		if k.client, err = httpconfig.NewClientFromConfig(httpconfig.HTTPClientConfig{
			Authorization: &httpconfig.Authorization{Type: "Bearer", CredentialsFile: serviceAccount + "token"}, // it is read again when it changes
			TLSConfig:     httpconfig.TLSConfig{CAFile: serviceAccount + "ca.crt"},
		}, "kubernetes"); err != nil {
			return nil, err
		}
	}
	k.client.Timeout = requestTimeout
	return k, nil
}

// objects returns all annotated objects.
func (k *kubernetes) objects(ctx context.Context) (all []*object, err error) {
	installed := false // at least one kind
	for _, kind := range discoveredKinds {
		for _, namespace := range k.namespaces {
			if namespace != "" {
				namespace = "/namespaces/" + url.PathEscape(namespace)
			}
			items, err := k.list(ctx, fmt.Sprintf(kind.path, namespace))
			if err != nil {
				return nil, err
			}
			installed = installed || items != nil
			for _, o := range items {
				if o.discovered = kind; o.Metadata.Annotations[annotationPool] != "" {
					all = append(all, o)
				}
			}
		}
	}
	if !installed {
		return nil, fmt.Errorf("%s answers 404 to all lists: -server must be the address of the Kubernetes API", k.server)
	}
	return all, nil
}

// list reads the objects at a path, in the version of the server's cache (0). They are nil if the kind is not installed.
func (k *kubernetes) list(ctx context.Context, path string) ([]*object, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.server+path+"?resourceVersion=0", http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusNotFound:
		return nil, nil
	case http.StatusOK:
	default:
		return nil, fmt.Errorf("the Kubernetes API answers %s to GET %s", res.Status, path)
	}
	var list struct{ Items []*object }
	if err := json.NewDecoder(http.MaxBytesReader(nil, res.Body, maxListBytes)).Decode(&list); err != nil {
		return nil, fmt.Errorf("the answer to GET %s (at most %d MiB are read; -namespaces makes it smaller): %w", path, maxListBytes>>20, err)
	}
	if list.Items == nil {
		return nil, fmt.Errorf("the answer to GET %s is no list: -server must be the address of the Kubernetes API", path)
	}
	return list.Items, nil
}

// keysOf returns the keys of an object's pool as JSON: its bounds of replicas, then its annotations.
func keysOf(o *object) ([]byte, error) {
	keys, replicas := map[string]any{}, map[string]any{}
	for _, b := range o.bounds {
		replicas[b.key] = b.unset
		if n := o.Spec[b.field]; n != nil {
			replicas[b.key] = n
		}
	}
	for name, text := range o.Metadata.Annotations {
		key, ours := strings.CutPrefix(name, annotationPrefix)
		if !ours || name == annotationPool {
			continue
		}
		var v any
		if strings.ContainsAny(text, "&*") {
			return nil, fmt.Errorf("annotation %s must have no anchor of YAML: write the value out", name)
		}
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return nil, fmt.Errorf("annotation %s is not valid YAML: check its brackets and quotes", name)
		}
		if own, ok := v.(map[string]any); ok && key == "replicas" {
			maps.Copy(replicas, own)
			continue
		}
		keys[key] = v
	}
	if len(replicas) > 0 && keys["replicas"] == nil {
		keys["replicas"] = replicas
	}
	text, err := json.Marshal(keys)
	if err == nil && len(text) > ingest.MaxDefinitionBytes {
		err = fmt.Errorf("the annotations have %d bytes: they must have at most %d", len(text), ingest.MaxDefinitionBytes)
	}
	return text, err
}

// finding is the result for an annotated object.
type finding struct {
	object *object
	pool   string
	keys   []byte // what the object says, as JSON
	err    error  // why the object does not define the pool
}

// evaluate checks annotated objects, the oldest first. If two name a pool, the older one defines it. HPAs of KEDA are
// skipped, because KEDA copies the annotations of its ScaledObject.
func evaluate(objects []*object, configured []capacity.Pool, define func(pool string, keys []byte) (capacity.Pool, error)) (all []finding) {
	slices.SortFunc(objects, func(a, b *object) int {
		return cmp.Or(a.Metadata.CreationTimestamp.Compare(b.Metadata.CreationTimestamp), strings.Compare(a.title(), b.title()))
	})
	by := map[string]*object{}
	for _, o := range objects {
		if slices.Contains(o.Metadata.OwnerReferences, owner{"ScaledObject", true}) {
			continue
		}
		f := finding{object: o, pool: o.Metadata.Annotations[annotationPool]}
		if f.keys, f.err = keysOf(o); f.err == nil {
			_, f.err = define(f.pool, f.keys)
		}
		if slices.ContainsFunc(configured, func(c capacity.Pool) bool { return c.Name == f.pool }) {
			f.err = fmt.Errorf("pool %q is in the configuration, which wins: remove it there, or the annotation %s here", f.pool, annotationPool)
		} else if first := by[f.pool]; first != nil {
			f.err = fmt.Errorf("pool %q is defined by %s, which is older: annotate one of them", f.pool, first.title())
		} else if f.err == nil {
			by[f.pool] = o
		}
		all = append(all, f)
	}
	return all
}
