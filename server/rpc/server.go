package rpc

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/forewarm/forewarm/internal/httpguard"
)

const (
	maxConnections    = 64
	maxCalls          = 256 // concurrent calls and streams; further ones are refused
	maxHeaderBytes    = 16 << 10
	connectionTimeout = 10 * time.Second
	grace             = time.Second

	// Autoscalers ping idle connections, some each ten seconds.
	leastPing = 5 * time.Second
)

// Server is one listener and the services behind it.
type Server struct {
	socket net.Listener
	grpc   *grpc.Server
	slots  *semaphore.Weighted // one per call
	count  func(method string, code codes.Code)
}

// Open opens the address of c, which must have one. Errors name a key below key. The caller registers services and then
// calls Run or Close. count is called for every call that ends, from many goroutines at once.
func Open(key string, c Config, count func(method string, code codes.Code)) (*Server, error) {
	secure, err := c.TLS.Open()
	if err != nil {
		return nil, fmt.Errorf("%s.tls.%w", key, err)
	}
	s := &Server{slots: semaphore.NewWeighted(maxCalls), count: count}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(cmp.Or(c.MaxBytes, 64<<10)),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: connectionTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
	}
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	if s.socket, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, fmt.Errorf("%s.listen = %s: %w; choose another address, or port 0 for a free one", key, c.Listen, err)
	}
	s.grpc = grpc.NewServer(options...)
	return s, nil
}

// RegisterService implements [grpc.ServiceRegistrar].
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) { s.grpc.RegisterService(d, impl) }

// Addr is the listening address.
func (s *Server) Addr() net.Addr { return s.socket.Addr() }

// Close releases the address of a server that does not run.
func (s *Server) Close() { _ = s.socket.Close() }

// Run answers calls until ctx ends, then waits shortly for running calls, and ends them and the streams.
func (s *Server) Run(ctx context.Context) error {
	serve := func() error { return s.grpc.Serve(netutil.LimitListener(s.socket, maxConnections)) }
	// ErrServerStopped is the error of a server that was stopped before it began.
	return httpguard.Until(ctx, "grpc", grpc.ErrServerStopped, serve, func() error {
		force := time.AfterFunc(grace, s.grpc.Stop)
		defer force.Stop()
		s.grpc.GracefulStop()
		return nil
	})
}

func (s *Server) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	err = s.admit(info.FullMethod, func() (err error) {
		answer, err = handle(ctx, request)
		return err
	})
	return answer, err
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return s.admit(info.FullMethod, func() error { return handle(srv, stream) })
}

// admit runs a call if there are not too many, and counts it.
func (s *Server) admit(method string, call func() error) (err error) {
	defer func() {
		result, ok := status.FromError(err)
		if !ok {
			result = status.FromContextError(err) // as the client gets it
		}
		s.count(path.Base(method), result.Code())
	}()
	if !s.slots.TryAcquire(1) {
		return status.Error(codes.ResourceExhausted, "too many calls at once; try again later")
	}
	defer s.slots.Release(1)
	return call()
}
