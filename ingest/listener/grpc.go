package listener

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // exporters compress by gzip
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/httpguard"
)

// grpcCodes are the status codes that are counted by themselves.
var grpcCodes = []string{"OK", "InvalidArgument", "Unauthenticated", "ResourceExhausted", "Unavailable", "DeadlineExceeded", "Unimplemented", "Canceled"}

// grpcServer answers Export of the OTLP trace and logs services (opentelemetry.proto.collector.{trace,logs}.v1).
// Messages reach the decoder as bytes, as those over HTTP do: one decoder reads and bounds every export.
type grpcServer struct{ *handler }

func newGRPC(h *handler) server { return &grpcServer{h} }

func (s *grpcServer) serve(ctx context.Context, l net.Listener) error {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(s.maxBytes), grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(uint32(s.concurrent)), grpc.ConnectionTimeout(headerTimeout), grpc.InTapHandle(s.admit),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: time.Minute, Timeout: headerTimeout}),
		grpc.StatsHandler(&grpcStats{s.Stats}),
	}
	if s.secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.secure)))
	}
	srv := grpc.NewServer(options...)
	srv.RegisterService(exportService("trace.v1.TraceService", codec.ContentTypeOTLP), s)
	srv.RegisterService(exportService("logs.v1.LogsService", codec.ContentTypeOTLPLogs), s)
	return ServeGRPC(ctx, srv, l, grace)
}

// ServeGRPC answers calls on l until ctx ends, and then lets those under way finish for grace.
func ServeGRPC(ctx context.Context, srv *grpc.Server, l net.Listener, grace time.Duration) error {
	// ErrServerStopped is the error of a server that was stopped before it began.
	return httpguard.Until(ctx, "grpc", grpc.ErrServerStopped, func() error { return srv.Serve(l) }, func() error {
		stopped := time.AfterFunc(grace, srv.Stop)
		defer stopped.Stop()
		srv.GracefulStop()
		return nil
	})
}

// exportService describes the one method of OTLP/gRPC for a signal, whose messages have a content type.
func exportService(name, contentType string) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector." + name,
		HandlerType: (*exporter)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Export",
			Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var request []byte
				if err := decode(&request); err != nil {
					return nil, err
				}
				return srv.(exporter).export(ctx, contentType, request)
			},
		}},
	}
}

type exporter interface {
	export(ctx context.Context, contentType string, request []byte) ([]byte, error)
}

// admit turns a call away before any of its message is read, and bounds the time it may take.
func (s *grpcServer) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	err := s.judge(info.Header)
	if err != nil {
		s.answered(status.Code(err).String())
		return ctx, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeouts.body+s.timeouts.store)
	context.AfterFunc(ctx, cancel) // the end of the call ends ctx
	return ctx, nil
}

func (s *grpcServer) judge(header metadata.MD) error {
	authorization := ""
	if values := header.Get("authorization"); len(values) > 0 {
		authorization = values[0]
	}
	switch {
	case !s.admits(authorization):
		return status.Error(codes.Unauthenticated, "the token is missing or wrong; send it as authorization: Bearer")
	case !s.rate.Allow():
		return status.Error(codes.Unavailable, "too many requests a second; send larger batches") // exporters retry by this code
	}
	return nil
}

// export takes in one export.
func (s *grpcServer) export(ctx context.Context, contentType string, request []byte) ([]byte, error) {
	if !s.slots.TryAcquire(1) {
		return nil, status.Error(codes.Unavailable, "too many requests at once")
	}
	defer s.slots.Release(1)
	m := codec.Meta{ContentType: contentType}
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if values := md.Get(codec.HeaderSource); len(values) > 0 {
			m.Source = values[0]
		}
	}
	out, err := s.accept(ctx, m, request)
	if err != nil {
		s.complain(err)
		return nil, status.Error(codes.Unavailable, "the telemetry stream does not answer")
	}
	s.stored(&out)
	if out.unreadable() {
		return nil, status.Error(codes.InvalidArgument, out.complaint())
	}
	return appendExportAnswer(nil, &out), nil
}

// rawCodec hands messages over as they are. Its name is that of protobuf, which they are in.
type rawCodec struct{}

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Name implements encoding.CodecV2.
func (rawCodec) Name() string { return "proto" }

// grpcStats counts bytes and the codes of calls that were let in.
type grpcStats struct{ stats *Stats }

// HandleRPC implements stats.Handler.
func (g *grpcStats) HandleRPC(_ context.Context, event stats.RPCStats) {
	switch e := event.(type) {
	case *stats.InPayload:
		g.stats.Bytes.Add(uint64(e.CompressedLength))
	case *stats.End:
		g.stats.answered(status.Code(e.Error).String())
	}
}

// TagRPC implements stats.Handler.
func (g *grpcStats) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (g *grpcStats) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (g *grpcStats) HandleConn(context.Context, stats.ConnStats) {}
