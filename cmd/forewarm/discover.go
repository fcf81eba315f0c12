package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/daemon"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/pipeline"
)

const (
	// discoverEvery is how often the watched objects are compared with the published definitions.
	discoverEvery = time.Second
	// repeatEvery is how often a definition is republished: after a purge of the stream, and to show daemons that the
	// pool still exists.
	repeatEvery = 10 * time.Minute
	// requestTimeout bounds one request to the Kubernetes API or NATS.
	requestTimeout = 5 * time.Second
)

// discover publishes pools that annotations define to the telemetry stream, for all daemons.
func discover(f *flag.FlagSet) action {
	path := f.String("config", "forewarm.yaml", "configuration `file` of the daemons")
	namespaces := f.String("namespaces", "", "`names` of the namespaces to watch, separated by commas; none watches all")
	server := f.String("server", "", "`URL` of the Kubernetes API without credentials, such as that of kubectl proxy; without it, the one of the pod")
	listen := f.String("listen", "127.0.0.1:9466", "`address` of /metrics, /healthz and /readyz")
	return func(ctx context.Context, _ []string, _ streams) error {
		d, stop, err := newDiscovery(*path, *server, strings.Split(*namespaces, ","))
		if err != nil {
			return usageError{err}
		}
		defer stop()
		l, err := net.Listen("tcp", *listen)
		if err != nil {
			return usagef("-listen: %w", err)
		}
		return d.run(ctx, l)
	}
}

// discovery watches annotated objects. Its loop owns all fields that are not atomic.
type discovery struct {
	cfg     *config.Config
	pools   pipeline.Config
	log     *zap.Logger
	kube    dynamic.Interface
	js      natsjs.JetStream
	watches []*watched

	published map[string]publication // by pool
	logged    map[string]string      // logged detail by object
	failing   bool                   // the last publication failed
	ready     atomic.Bool

	metrics *metrics.Set
}

type publication struct {
	keys []byte
	at   time.Time
}

// watched is one kind of object in one namespace, or in all.
type watched struct {
	informer cache.SharedInformer
	absent   atomic.Bool // the API does not know the kind: KEDA is not installed
}

func newDiscovery(path, server string, namespaces []string) (d *discovery, stop func(), err error) {
	d = &discovery{published: map[string]publication{}, logged: map[string]string{}, metrics: metrics.NewSet()}
	if d.cfg, d.pools, err = loadPipeline(path); err != nil {
		return nil, nil, err
	}
	if d.log, err = daemon.NewLogger(d.cfg.Log); err != nil {
		return nil, nil, err
	}
	api := &rest.Config{Host: server}
	if server == "" {
		if api, err = rest.InClusterConfig(); err != nil {
			return nil, nil, fmt.Errorf("the Kubernetes API: %w; run it in a pod, or name a server with -server", err)
		}
	}
	if d.kube, err = dynamic.NewForConfig(api); err != nil {
		return nil, nil, fmt.Errorf("the Kubernetes API: %w", err)
	}
	if d.cfg.NATS.URL == "" {
		return nil, nil, errors.New("nats.url is empty: it must name the NATS server of the daemons; set FOREWARM_NATS_URL where that is inside the daemon")
	}
	conn, err := jetstream.Connect(d.cfg.NATS, nil, jetstream.LogTo(d.log))
	if err != nil {
		return nil, nil, err
	}
	if d.js, err = natsjs.New(conn); err != nil {
		return nil, nil, err
	}
	for _, kind := range discoveredKinds {
		for _, namespace := range namespaces {
			d.watch(kind.resource, strings.TrimSpace(namespace))
		}
	}
	return d, conn.Close, nil
}

// watch prepares the watch of one kind.
func (d *discovery) watch(resource schema.GroupVersionResource, namespace string) {
	objects := d.kube.Resource(resource).Namespace(namespace)
	w := &watched{informer: cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o meta.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o meta.ListOptions) (watch.Interface, error) { return objects.Watch(ctx, o) },
	}, &unstructured.Unstructured{}, 0)}
	failed := func(_ context.Context, _ *cache.Reflector, err error) {
		if w.absent.Store(apierrors.IsNotFound(err)); w.absent.Load() {
			d.log.Debug("this kind of object is not installed", zap.String("resource", resource.String()))
			return
		}
		d.metrics.GetOrCreateCounter(`forewarm_discovery_errors_total{of="kubernetes"}`).Inc()
		d.log.Warn("objects cannot be watched; pools do not change", zap.String("resource", resource.String()), zap.String("namespace", namespace), zap.Error(err))
	}
	if err := errors.Join(w.informer.SetTransform(stripUnused), w.informer.SetWatchErrorHandlerWithContext(failed)); err != nil {
		panic(err) // it was started before
	}
	d.watches = append(d.watches, w)
}

// run works until ctx ends.
func (d *discovery) run(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !d.ready.Load() {
			http.Error(w, "not all objects were read yet, or NATS takes no definition: see the log", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { d.metrics.WritePrometheus(w) })
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return httpguard.Serve(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: requestTimeout}, l, requestTimeout)
	})
	for _, w := range d.watches {
		group.Go(func() error { w.informer.RunWithContext(ctx); return nil })
	}
	group.Go(func() error {
		tick := time.NewTicker(discoverEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-tick.C:
				d.compare(ctx, now)
			}
		}
	})
	d.log.Info("discovering pools", zap.String("http", l.Addr().String()), zap.Int("watches", len(d.watches)))
	return group.Wait()
}

// compare publishes the differences. It waits until all objects are read, because an unread object is not deleted.
func (d *discovery) compare(ctx context.Context, now time.Time) {
	var objects []*unstructured.Unstructured
	for _, w := range d.watches {
		if !w.informer.HasSynced() && !w.absent.Load() {
			d.ready.Store(false)
			return
		}
		for _, x := range w.informer.GetStore().List() {
			if o, ok := x.(*unstructured.Unstructured); ok {
				objects = append(objects, o)
			}
		}
	}
	var errs []error
	named, faults, logged := map[string]bool{}, map[string]int{}, map[string]string{}
	for _, f := range evaluate(objects, d.pools.Pools, d.published, d.cfg.MaxPools, d.pools.Define) {
		named[f.pool], faults[f.reason] = true, faults[f.reason]+1
		if f.reason == "" {
			err := d.publish(ctx, f.pool, f.keys, now)
			if errs = append(errs, err); err != nil {
				continue
			}
			f.detail = fmt.Sprintf("pool %q is defined: %s", f.pool, f.keys)
		}
		title := titleOf(f.object)
		if logged[title] = f.detail; d.logged[title] != f.detail {
			d.logFinding(ctx, &f)
		}
	}
	d.logged = logged
	for pool, was := range d.published {
		switch {
		case !named[pool]:
			if err := d.publish(ctx, pool, nil, now); err != nil {
				errs = append(errs, err)
				continue
			}
			d.log.Info("no object names the pool any more: daemons forget it when its telemetry ends", zap.String("pool", pool))
			delete(d.published, pool)
		case now.Sub(was.at) >= repeatEvery: // its object is malformed now
			errs = append(errs, d.publish(ctx, pool, was.keys, now))
		}
	}
	d.metrics.GetOrCreateGauge("forewarm_discovery_pools", nil).Set(float64(len(d.published)))
	for _, reason := range faultReasons {
		d.metrics.GetOrCreateGauge(fmt.Sprintf("forewarm_discovery_faults{reason=%q}", reason), nil).Set(float64(faults[reason]))
	}
	err := errors.Join(errs...)
	if err != nil && !d.failing {
		d.log.Error("definitions are not published; retrying", zap.Error(err))
	}
	d.failing = err != nil
	d.ready.Store(err == nil)
}

// publish stores a definition in the stream. Without keys it revokes the definition.
func (d *discovery) publish(ctx context.Context, pool string, keys []byte, now time.Time) error {
	was, ok := d.published[pool]
	if ok && keys != nil && bytes.Equal(was.keys, keys) && now.Sub(was.at) < repeatEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := d.js.Publish(ctx, ingest.DefinitionSubject(d.cfg.NATS.Prefix, pool), keys); err != nil {
		d.metrics.GetOrCreateCounter(`forewarm_discovery_errors_total{of="nats"}`).Inc()
		return fmt.Errorf("pool %s: %w", pool, err)
	}
	d.published[pool] = publication{keys, now}
	return nil
}

// logFinding logs the result for an object, and creates a Kubernetes event for it.
func (d *discovery) logFinding(ctx context.Context, f *finding) {
	o, kind, reason := f.object, "Normal", "ForewarmPoolDefined"
	if f.reason != "" {
		kind, reason = "Warning", "ForewarmPoolRefused"
		d.log.Warn("an annotation defines no pool: "+f.detail, zap.String("object", titleOf(o)), zap.String("reason", f.reason))
	} else {
		d.log.Info(f.detail, zap.String("object", titleOf(o)))
	}
	now := time.Now().UTC().Format(time.RFC3339)
	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "type": kind, "reason": reason, "message": f.detail[:min(len(f.detail), 1024)],
		"metadata": map[string]any{ // the API keeps one event per name, for an hour
			"namespace": o.GetNamespace(), "name": fmt.Sprintf("%.200s.%08x", o.GetName(), crc32.ChecksumIEEE([]byte(string(o.GetUID())+f.detail))),
		},
		"involvedObject": map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "namespace": o.GetNamespace(), "name": o.GetName(), "uid": string(o.GetUID())},
		"source":         map[string]any{"component": "forewarm"}, "count": int64(1), "firstTimestamp": now, "lastTimestamp": now,
	}}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := d.kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(o.GetNamespace()).Create(ctx, event, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		d.log.Debug("Kubernetes did not accept an event", zap.Error(err))
	}
}
