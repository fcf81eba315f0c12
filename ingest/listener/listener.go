package listener

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/httpguard"
)

const (
	maxConnections = 1024
	maxHeaderBytes = 16 << 10
	headerTimeout  = 5 * time.Second
	idleTimeout    = 2 * time.Minute
	grace          = 5 * time.Second // for requests under way when the daemon stops
)

// timeouts bound the steps of a request.
type timeouts struct {
	body  time.Duration // for all of its bytes
	store time.Duration // for the store's answer
}

var usualTimeouts = timeouts{body: 15 * time.Second, store: 10 * time.Second}

// Deps are what listeners need of the rest.
type Deps struct {
	// Store keeps what was decoded: once it returns nil, all of b is in the telemetry stream. An error means that some of
	// it may be missing; storing it again is harmless as far as its records have ids. Store is called by many goroutines
	// at once, must end soon after ctx does, and must not use b later.
	Store func(ctx context.Context, b *ingest.Batch) error
	// Refused receives the unusable records of a request, from many goroutines at once.
	Refused func([]ingest.Refusal)
	// Serves reports whether telemetry of a pool is counted. Records of other pools are stored too, for other
	// readers of the stream, but the answer names the pools. It is called by many goroutines at once.
	Serves func(pool string) bool
	Log    *zap.Logger
}

// Listeners are the listeners that a configuration names. There may be none.
type Listeners struct {
	running []running
}

// running is one listener: its socket, and what serves on it.
type running struct {
	name   string
	socket net.Listener
	server server
	stats  *Stats
}

// server answers requests on l until ctx ends and those under way are through. It closes l.
type server interface {
	serve(ctx context.Context, l net.Listener) error
}

// handler is what the servers have in common.
type handler struct {
	Deps
	*guard
	*Stats
	timeouts   timeouts
	secure     *tls.Config // nil without TLS
	maxBytes   int
	concurrent int // requests at once
	listen     string
	hosts      []string
	outage     rate.Sometimes
}

// seldom is how often what fails for every client is logged.
func seldom() rate.Sometimes { return rate.Sometimes{Interval: 10 * time.Second} }

// WarnOfCertificate logs that a new certificate cannot be used.
func WarnOfCertificate(log *zap.Logger) func(error) {
	often := seldom()
	return func(err error) {
		often.Do(func() {
			log.Warn("a listener's new certificate cannot be used; it keeps the one before", zap.Error(err))
		})
	}
}

// complain logs that the store failed: once in a while, for during an outage every request finds out.
func (h *handler) complain(err error) {
	h.outage.Do(func() {
		h.Log.Warn("telemetry is not stored; its producers are asked to try again", zap.String("listener", h.Listener), zap.Error(err))
	})
}

// New reads the files that c names and opens its addresses; Run serves on them. Errors name the key.
func New(c Config, deps Deps) (*Listeners, error) { return open(c, deps, usualTimeouts) }

func open(c Config, deps Deps, t timeouts) (*Listeners, error) {
	l := &Listeners{}
	listen := func(name string, e *Endpoint, codes []string, serverOf func(*handler) server) error {
		if e.Listen == "" {
			return nil
		}
		h := &handler{Deps: deps, Stats: newStats(name, codes...), timeouts: t, maxBytes: e.MaxBytes, concurrent: e.Concurrent, listen: e.Listen, hosts: c.Hosts, outage: seldom()}
		var err error
		if h.guard, err = newGuard(name, e); err != nil {
			return err
		}
		if h.secure, err = e.TLS.Open(WarnOfCertificate(deps.Log)); err != nil {
			return fmt.Errorf("listeners.%s.tls.%w", name, err)
		}
		socket, err := net.Listen("tcp", e.Listen)
		if err != nil {
			return fmt.Errorf("listeners.%s.listen is %q: %w; choose another address, or port 0 for a free one", name, e.Listen, err)
		}
		l.running = append(l.running, running{name, netutil.LimitListener(socket, maxConnections), serverOf(h), h.Stats})
		if host, _, _ := net.SplitHostPort(e.Listen); h.secure == nil && !httpguard.IsLoopback(host) {
			deps.Log.Warn("a token crosses the network in clear; set tls, or put a proxy with TLS before the listener", zap.String("listener", name))
		}
		return nil
	}
	err := listen("http", &c.HTTP, httpCodes, newHTTP)
	if err == nil {
		err = listen("grpc", &c.GRPC, grpcCodes, newGRPC)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Run serves until ctx ends and requests under way are through, at most for a few seconds. It closes the sockets.
func (l *Listeners) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range l.running {
		group.Go(func() error {
			if err := r.server.serve(ctx, r.socket); err != nil {
				return fmt.Errorf("%s listener: %w", r.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Close closes the sockets of listeners that were never run.
func (l *Listeners) Close() {
	for _, r := range l.running {
		_ = r.socket.Close() // an error means that it is closed already
	}
}

// Addr is where the listener of that name ("http", "grpc") can be reached; nil when it is off.
func (l *Listeners) Addr(name string) net.Addr {
	for _, r := range l.running {
		if r.name == name {
			return r.socket.Addr()
		}
	}
	return nil
}

// Stats counts what each listener was sent so far.
func (l *Listeners) Stats() []*Stats {
	all := make([]*Stats, len(l.running))
	for i, r := range l.running {
		all[i] = r.stats
	}
	return all
}
