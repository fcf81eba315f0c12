package listener

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/internal/tlsconfig"
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

// Stats counts what a listener was sent.
type Stats struct {
	Listener string                    // http or grpc
	Requests map[string]*atomic.Uint64 // by the status code of the answer; codes that are not listed are "other"
	Bytes    atomic.Uint64             // of bodies, as sent
	Records  atomic.Uint64             // stored
	Ignored  atomic.Uint64             // records that carry no demand
}

// statusCodes are those that are counted by themselves, of HTTP and of gRPC.
var statusCodes = [...]string{
	"200", "400", "401", "403", "404", "405", "408", "413", "415", "429", "503",
	"OK", "InvalidArgument", "Unauthenticated", "PermissionDenied", "ResourceExhausted", "Unavailable", "DeadlineExceeded", "Unimplemented",
	"other",
}

// Listeners are the listeners that a configuration names. There may be none.
type Listeners struct{ running []*handler }

// handler is one listener: its socket, and what answers there.
type handler struct {
	Deps
	Endpoint
	*Stats
	socket   net.Listener
	timeouts timeouts
	secure   *tls.Config // nil without TLS
	token    string      // "" asks for none
	hosts    []string
	outage   rate.Sometimes

	rate  *rate.Limiter
	slots *semaphore.Weighted // a request takes one while it is stored
	// memory is for bodies that are read, perhaps from slow senders, by their length.
	memory *semaphore.Weighted
}

// New reads the files that c names and opens its addresses; Run serves on them. Errors name the key.
func New(c Config, deps Deps) (*Listeners, error) { return open(c, deps, usualTimeouts) }

func open(c Config, deps Deps, t timeouts) (*Listeners, error) {
	l := &Listeners{}
	for name, e := range c.endpoints() {
		if e.Listen == "" {
			continue
		}
		h, err := listen(name, e, c.Hosts, deps, t)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("listeners.%s.%w", name, err)
		}
		l.running = append(l.running, h)
	}
	return l, nil
}

func listen(name string, e *Endpoint, hosts []string, deps Deps, t timeouts) (*handler, error) {
	h := &handler{
		Deps: deps, Endpoint: *e, Stats: &Stats{Listener: name, Requests: map[string]*atomic.Uint64{}}, timeouts: t, hosts: hosts,
		outage: rate.Sometimes{Interval: 10 * time.Second},
		rate:   rate.NewLimiter(rate.Limit(e.RequestsPerS), max(1, int(e.RequestsPerS))),
		slots:  semaphore.NewWeighted(int64(e.Concurrent)), memory: semaphore.NewWeighted(int64(e.Concurrent) * int64(e.MaxBytes)),
	}
	for _, code := range statusCodes {
		h.Requests[code] = new(atomic.Uint64)
	}
	var err error
	if e.TokenFile != "" {
		if h.token, err = tlsconfig.ReadSecret("token_file", e.TokenFile); err != nil {
			return nil, err
		}
	}
	h.secure, err = e.TLS.Open(func(err error) {
		deps.Log.Warn("a listener's new certificate cannot be used; it keeps the one before", zap.Error(err))
	})
	if err != nil {
		return nil, fmt.Errorf("tls.%w", err)
	}
	socket, err := net.Listen("tcp", e.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen is %q: %w; choose another address, or port 0 for a free one", e.Listen, err)
	}
	h.socket = netutil.LimitListener(socket, maxConnections)
	if h.secure == nil && httpguard.IsOpen(e.Listen) {
		deps.Log.Warn("a token crosses the network in clear; set tls, or put a proxy with TLS before the listener", zap.String("listener", name))
	}
	return h, nil
}

// Run serves until ctx ends and requests under way are through, at most for a few seconds. It closes the sockets.
func (l *Listeners) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, h := range l.running {
		group.Go(func() error {
			if err := h.serve(ctx, h.socket); err != nil {
				return fmt.Errorf("%s listener: %w", h.Listener, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Close closes the sockets of listeners that were never run.
func (l *Listeners) Close() {
	for _, h := range l.running {
		_ = h.socket.Close() // an error means that it is closed already
	}
}

// Addr is where the listener of that name ("http", "grpc") can be reached; nil when it is off.
func (l *Listeners) Addr(name string) net.Addr {
	for _, h := range l.running {
		if h.Listener == name {
			return h.socket.Addr()
		}
	}
	return nil
}

// Stats counts what each listener was sent so far.
func (l *Listeners) Stats() []*Stats {
	all := make([]*Stats, len(l.running))
	for i, h := range l.running {
		all[i] = h.Stats
	}
	return all
}
