package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/daemon"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/pipeline"
)

const (
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
	every := f.Duration("every", 15*time.Second, "how often the objects are read")
	listen := f.String("listen", "127.0.0.1:9466", "`address` of /metrics, /healthz and /readyz")
	return func(ctx context.Context, _ []string, _ streams) error {
		if *every <= 0 {
			return usagef("-every is %s: it must be more than 0s", *every)
		}
		d, stop, err := newDiscovery(*path, *server, strings.Split(*namespaces, ","))
		if err != nil {
			return usageError{err}
		}
		defer stop()
		l, err := net.Listen("tcp", *listen)
		if err != nil {
			return usagef("-listen: %w", err)
		}
		return d.run(ctx, l, *every)
	}
}

// discovery publishes annotated objects. Its loop owns all fields that are not atomic.
type discovery struct {
	cfg   *config.Config
	pools pipeline.Config
	log   *zap.Logger
	kube  *kubernetes
	js    natsjs.JetStream

	published map[string]publication // by pool
	logged    map[string]string      // logged detail by object
	ready     atomic.Bool            // the last comparison succeeded

	metrics *metrics.Set
}

type publication struct {
	keys []byte
	at   time.Time
}

func newDiscovery(path, server string, namespaces []string) (d *discovery, stop func(), err error) {
	d = &discovery{published: map[string]publication{}, logged: map[string]string{}, metrics: metrics.NewSet()}
	if d.cfg, d.pools, err = loadPipeline(path); err != nil {
		return nil, nil, err
	}
	if d.log, err = daemon.NewLogger(d.cfg.Log); err != nil {
		return nil, nil, err
	}
	if d.kube, err = newKubernetes(server, namespaces); err != nil {
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
	return d, conn.Close, nil
}

// run works until ctx ends.
func (d *discovery) run(ctx context.Context, l net.Listener, every time.Duration) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !d.ready.Load() {
			http.Error(w, "not all objects were read, or NATS takes no definition: see the log", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { d.metrics.WritePrometheus(w) })
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return httpguard.Serve(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: requestTimeout}, l, requestTimeout)
	})
	group.Go(func() error {
		for first := true; ; first = false {
			err := d.compare(ctx, time.Now())
			if err != nil {
				d.metrics.GetOrCreateCounter("forewarm_discovery_errors_total").Inc()
			}
			if was := d.ready.Swap(err == nil); err != nil && (was || first) && ctx.Err() == nil {
				d.log.Error("pools stay as they are; retrying", zap.Error(err))
			}
			if !sleep.For(ctx, every) {
				return nil
			}
		}
	})
	d.log.Info("discovering pools", zap.String("http", l.Addr().String()))
	return group.Wait()
}

// compare publishes the differences. Where not all objects can be read, pools stay as they are.
func (d *discovery) compare(ctx context.Context, now time.Time) error {
	objects, err := d.kube.objects(ctx)
	if err != nil {
		return fmt.Errorf("objects cannot be read: %w", err)
	}
	var errs []error
	named, faults, logged := map[string]bool{}, 0, map[string]string{}
	for _, f := range evaluate(objects, d.pools.Pools, d.pools.Define) {
		named[f.pool] = true
		level, text := zap.InfoLevel, fmt.Sprintf("pool %q is defined: %s", f.pool, f.keys)
		if f.err != nil {
			faults++
			level, text = zap.WarnLevel, "an annotation defines no pool: "+oneLine(f.err)
		} else if err := d.publish(ctx, f.pool, f.keys, now); err != nil {
			errs = append(errs, err)
			continue
		}
		title := f.object.title()
		if logged[title] = text; d.logged[title] != text {
			d.log.Log(level, text, zap.String("object", title))
		}
	}
	d.logged = logged
	for pool, was := range d.published {
		if named[pool] { // also if its object is malformed now
			errs = append(errs, d.publish(ctx, pool, was.keys, now))
		} else if err := d.publish(ctx, pool, nil, now); err != nil {
			errs = append(errs, err)
		} else {
			d.log.Info("no object names the pool any more: daemons forget it when its telemetry ends", zap.String("pool", pool))
			delete(d.published, pool)
		}
	}
	d.metrics.GetOrCreateGauge("forewarm_discovery_pools", nil).Set(float64(len(d.published)))
	d.metrics.GetOrCreateGauge("forewarm_discovery_faults", nil).Set(float64(faults))
	return errors.Join(errs...)
}

// publish stores a definition in the stream. Without keys it revokes the definition.
func (d *discovery) publish(ctx context.Context, pool string, keys []byte, now time.Time) error {
	was, ok := d.published[pool]
	if ok && keys != nil && bytes.Equal(was.keys, keys) && now.Sub(was.at) < repeatEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := d.js.Publish(ctx, ingest.Subject(d.cfg.NATS.Prefix, ingest.DefinitionSubject, pool), keys); err != nil {
		return fmt.Errorf("pool %s: %w", pool, err)
	}
	d.published[pool] = publication{keys, now}
	return nil
}
