package keda

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/server"
	pb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// MetricName is the only metric. KEDA prefixes the number of the trigger.
const MetricName = "forewarm-desired-replicas"

const (
	target     = 1           // of the metric per replica: the autoscaler computes ceil(value / target) replicas
	watchEvery = time.Second // between two checks of a stream for a changed answer
)

// Scaler implements the external scaler. It is safe for concurrent use.
type Scaler struct {
	pb.UnimplementedExternalScalerServer
	reader server.Reader
}

// Register adds a scaler that answers from reader to a gRPC server.
func Register(to grpc.ServiceRegistrar, reader server.Reader) {
	pb.RegisterExternalScalerServer(to, &Scaler{reader: reader})
}

// IsActive reports whether the target should have at least one replica.
func (s *Scaler) IsActive(_ context.Context, ref *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	n, err := s.replicas(ref)
	if err != nil {
		return nil, err
	}
	return &pb.IsActiveResponse{Result: n > 0}, nil
}

// StreamIsActive sends the answer of IsActive at once and at each change. If there is no advice any more, the stream
// ends with an error, and KEDA opens a new one.
func (s *Scaler) StreamIsActive(ref *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last *pb.IsActiveResponse
	for {
		answer, err := s.IsActive(stream.Context(), ref)
		if err != nil {
			return err
		}
		if last == nil || answer.Result != last.Result {
			if err := stream.Send(answer); err != nil {
				return err
			}
			last = answer
		}
		select {
		case <-stream.Context().Done():
			return errEnded
		case <-ticker.C:
		}
	}
}

// GetMetricSpec does not depend on the pool's data, so that the autoscaler can start before there is advice. The answer
// has both the old and the new field of the target; readers prefer the new one.
func (s *Scaler) GetMetricSpec(_ context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	if _, _, err := readTrigger(ref); err != nil {
		return nil, err
	}
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{{MetricName: MetricName, TargetSize: target, TargetSizeFloat: target}}}, nil
}

// StreamMetricSpec sends the specification and stays open: it never changes.
func (s *Scaler) StreamMetricSpec(ref *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.GetMetricSpecResponse]) error {
	answer, err := s.GetMetricSpec(stream.Context(), ref)
	if err == nil {
		err = stream.Send(answer)
	}
	if err != nil {
		return err
	}
	<-stream.Context().Done()
	return errEnded
}

// GetMetrics returns the number of replicas that the pool should have.
func (s *Scaler) GetMetrics(_ context.Context, request *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	if name := request.GetMetricName(); name != MetricName {
		return nil, status.Errorf(codes.InvalidArgument, "there is no metric %q, only %s", name, MetricName)
	}
	n, err := s.replicas(request.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	metric := &pb.MetricValue{MetricName: MetricName, MetricValue: int64(n), MetricValueFloat: float64(n)}
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{metric}}, nil
}

// replicas is the advice for a trigger; errors are gRPC statuses.
func (s *Scaler) replicas(ref *pb.ScaledObjectRef) (int, error) {
	pool, role, err := readTrigger(ref)
	if err != nil {
		return 0, err
	}
	n, _, err := server.Advise(s.reader, pool, role, time.Now())
	if p, ok := errors.AsType[*server.Problem](err); ok {
		code := map[int]codes.Code{http.StatusNotFound: codes.NotFound, http.StatusBadRequest: codes.InvalidArgument}[p.Status]
		return 0, status.Error(cmp.Or(code, codes.Unavailable), p.Detail)
	}
	return n, err
}

// errEnded ends a stream whose context has ended: the client closed it, or the daemon stops.
var errEnded = status.Error(codes.Unavailable, "the stream is closed")

// readTrigger returns the pool and the role in the metadata of a call, where KEDA has keys of its own, too. A misspelt role
// would select all roles, so a key that is similar to one of ours is an error. Errors are gRPC statuses that name the key.
func readTrigger(ref *pb.ScaledObjectRef) (pool, role string, err error) {
	role = server.RoleAll
	metadata := ref.GetScalerMetadata()
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		switch name := strings.TrimSuffix(key, "FromEnv"); name { // KEDA takes the value from the environment of the target
		case "pool":
			pool = metadata[key]
		case "role":
			role = metadata[key]
		default:
			if question := value.DidYouMean(strings.ToLower(name), []string{"pool", "role"}); question != "" {
				return "", "", status.Errorf(codes.InvalidArgument, "metadata %s: unknown key; %s", key, question)
			}
		}
	}
	if pool == "" {
		return "", "", status.Error(codes.InvalidArgument, "metadata pool is missing: name the pool whose replicas the target is")
	}
	return pool, role, nil
}
