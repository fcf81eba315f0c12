package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

const (
	annotationPrefix = "forewarm.dev/"
	annotationPool   = annotationPrefix + "pool"
)

// discovered is a kind of object that may define a pool. bounds are fields of its spec, with their defaults.
type discovered struct {
	resource schema.GroupVersionResource
	bounds   []bound
}

type bound struct {
	key, field string
	unset      int64
}

var discoveredKinds = map[string]discovered{
	"ScaledObject": {schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"},
		[]bound{{"min", "minReplicaCount", 0}, {"max", "maxReplicaCount", 100}}},
	"HorizontalPodAutoscaler": {schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		[]bound{{"min", "minReplicas", 1}, {"max", "maxReplicas", 0}}},
	"Deployment": {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, nil},
}

// stripUnused removes fields that discovery does not read, in place: the informer owns the object. Of an object without
// annotations it keeps the name.
func stripUnused(object any) (any, error) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	o.SetManagedFields(nil)
	delete(o.Object, "status")
	if o.GetAnnotations()[annotationPool] == "" {
		delete(o.Object, "spec")
		o.Object["metadata"] = map[string]any{"namespace": o.GetNamespace(), "name": o.GetName()}
	}
	return o, nil
}

// keysOf returns the keys of an object's pool as JSON: its bounds of replicas, then its annotations.
func keysOf(o *unstructured.Unstructured) ([]byte, error) {
	keys, replicas := map[string]any{}, map[string]any{}
	for _, b := range discoveredKinds[o.GetKind()].bounds {
		n, ok, _ := unstructured.NestedInt64(o.Object, "spec", b.field)
		if !ok {
			n = b.unset
		}
		replicas[b.key] = n
	}
	for name, text := range o.GetAnnotations() {
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

// Reasons why an object defines no pool.
const (
	faultMalformed  = "malformed"
	faultConfigured = "configured"
	faultDuplicate  = "duplicate"
	faultTooMany    = "max_pools"
)

var faultReasons = []string{faultMalformed, faultConfigured, faultDuplicate, faultTooMany}

// finding is the result for an annotated object.
type finding struct {
	object *unstructured.Unstructured
	pool   string
	keys   []byte
	reason string // one of faultReasons, or "" if the object defines the pool
	detail string
}

// evaluate checks annotated objects, the oldest first. If two name a pool, the older one defines it. HPAs of KEDA are
// skipped, because KEDA copies the annotations of its ScaledObject. A published pool keeps its slot while its object is
// malformed.
func evaluate(objects []*unstructured.Unstructured, configured []capacity.Pool, published map[string]publication, limit int, define func(pool string, keys []byte) (capacity.Pool, error)) []finding {
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), strings.Compare(titleOf(a), titleOf(b)))
	})
	var all []finding
	by, places := map[string]*unstructured.Unstructured{}, len(configured)
	for _, o := range objects {
		pool := o.GetAnnotations()[annotationPool]
		if owner := meta.GetControllerOf(o); pool == "" || owner != nil && owner.Kind == "ScaledObject" {
			continue
		}
		f := finding{object: o, pool: pool}
		keys, err := keysOf(o)
		if err == nil {
			_, err = define(pool, keys)
		}
		switch {
		case slices.ContainsFunc(configured, func(c capacity.Pool) bool { return c.Name == pool }):
			f.reason, f.detail = faultConfigured, fmt.Sprintf("pool %q is in the configuration, which wins: remove it there, or the annotation %s here", pool, annotationPool)
		case by[pool] != nil:
			f.reason, f.detail = faultDuplicate, fmt.Sprintf("pool %q is defined by %s, which is older: annotate one of them", pool, titleOf(by[pool]))
		case err != nil:
			f.reason, f.detail = faultMalformed, oneLine(err)
			if _, ok := published[pool]; ok {
				places++
			}
		case places >= limit:
			f.reason, f.detail = faultTooMany, fmt.Sprintf("pool %q is one too many: raise max_pools, which is %d", pool, limit)
		default:
			f.keys, by[pool] = keys, o
			places++
		}
		all = append(all, f)
	}
	return all
}

// titleOf names an object for people.
func titleOf(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
