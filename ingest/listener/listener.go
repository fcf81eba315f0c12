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

type timeouts struct {
	body  time.Duration // for all of its bytes
	store time.Duration // for the store's answer
}

var usualTimeouts = timeouts{body: 15 * time.Second, store: 10 * time.Second}

// Deps are what a listener needs of the rest.
type Deps struct {
	// Store keeps what was decoded: once it returns nil, all of b is in the telemetry stream. An error means that some of
	// it may be missing; storing it again is harmless as far as its records have ids. Store is called by many goroutines
	// at once, must end soon after ctx does, and must not use b later.
	Store func(ctx context.Context, b *ingest.Batch) error
	// Refused receives the unusable records of a request, from many goroutines at once.
	Refused func([]ingest.Refusal)
	// Ignored receives how many records of a request carry no demand, from many goroutines at once.
	Ignored func(int)
	// Serves reports whether telemetry of a pool is counted. Records of other pools are stored too, for other
	// readers of the stream, but the answer names the pools. It is called by many goroutines at once.
	Serves func(pool string) bool
	Log    *zap.Logger
}

// statusCodes are those that are counted by themselves, of HTTP and of gRPC.
var statusCodes = [...]string{
	"200", "400", "401", "403", "404", "405", "408", "413", "415", "429", "503",
	"OK", "InvalidArgument", "Unauthenticated", "PermissionDenied", "ResourceExhausted", "Unavailable", "DeadlineExceeded", "Unimplemented",
	"other",
}

// Listener takes in telemetry by HTTP and gRPC.
type Listener struct {
	// Requests counts the answers by their status code; codes that are not listed are "other".
	Requests map[string]*atomic.Uint64
	// Unusable are those of Requests of which every record was refused, each with its reason.
	Unusable map[string]*atomic.Uint64
	deps     Deps
	cfg      Config
	socket   net.Listener // nil when it is off
	timeouts timeouts
	secure   *tls.Config    // nil without TLS
	token    string         // "" asks for none
	outage   rate.Sometimes // limits the log while nothing can be stored

	rate  *rate.Limiter
	slots *semaphore.Weighted // a request takes one while it is stored
	// memory is for bodies that are read, perhaps from slow senders, by their length.
	memory *semaphore.Weighted
}

// New reads the files that c names and opens its address, if there is one; Run serves on it. Errors name the key.
func New(c Config, deps Deps) (*Listener, error) {
	e := &c.HTTP
	l := &Listener{
		Requests: map[string]*atomic.Uint64{},
		Unusable: map[string]*atomic.Uint64{},
		deps:     deps,
		cfg:      c,
		timeouts: usualTimeouts,
		outage:   rate.Sometimes{Interval: 10 * time.Second},
		rate:     rate.NewLimiter(rate.Limit(e.RequestsPerS), max(1, int(e.RequestsPerS))),
		slots:    semaphore.NewWeighted(int64(e.Concurrent)),
		memory:   semaphore.NewWeighted(int64(e.Concurrent) * int64(e.MaxBytes)),
	}
	if e.Listen == "" {
		return l, nil
	}
	for _, code := range statusCodes {
		l.Requests[code], l.Unusable[code] = new(atomic.Uint64), new(atomic.Uint64)
	}
	var err error
	if e.TokenFile != "" {
		if l.token, err = tlsconfig.ReadSecret("listeners.http.token_file", e.TokenFile); err != nil {
			return nil, err
		}
	}
	l.secure, err = e.TLS.Open()
	if err != nil {
		return nil, fmt.Errorf("listeners.http.tls.%w", err)
	}
	socket, err := net.Listen("tcp", e.Listen)
	if err != nil {
		return nil, fmt.Errorf("listeners.http.listen is %q: %w; choose another address, or port 0 for a free one", e.Listen, err)
	}
	l.socket = netutil.LimitListener(socket, maxConnections)
	if l.secure == nil && httpguard.IsOpen(e.Listen) {
		deps.Log.Warn("a token crosses the network in clear; set listeners.http.tls, or put a proxy with TLS before the listener")
	}
	return l, nil
}

// Close closes the socket of a listener that was never run.
func (l *Listener) Close() {
	if l.socket != nil {
		_ = l.socket.Close() // an error means that it is closed already
	}
}

// Addr is where the listener can be reached; "" when it is off.
func (l *Listener) Addr() string {
	if l.socket == nil {
		return ""
	}
	return l.socket.Addr().String()
}
