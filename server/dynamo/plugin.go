package dynamo

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/server"
	pb "github.com/forewarm/forewarm/server/dynamo/pluginpb"
)

// The kinds of workers.
const (
	componentPrefill = "prefill"
	componentDecode  = "decode" // also workers that do both
)

// plugin answers the calls of one planner.
type plugin struct {
	pb.UnimplementedPredictPluginServer
	pb.UnimplementedProposePluginServer
	pb.UnimplementedPluginLifecycleServer
	planner Planner
	reader  server.Reader
}

// Register adds the stages of a planner to a gRPC server.
func Register(to grpc.ServiceRegistrar, p Planner, reader server.Reader) {
	s := &plugin{planner: p, reader: reader}
	if slices.Contains(p.stages(), Predict) {
		pb.RegisterPredictPluginServer(to, s)
	}
	if slices.Contains(p.stages(), Propose) {
		pb.RegisterProposePluginServer(to, s)
	}
	pb.RegisterPluginLifecycleServer(to, s)
}

// Propose returns the minimum of workers of the pool; in a disaggregated pool, one for each role.
func (s *plugin) Propose(context.Context, *pb.ProposeStageRequest) (*pb.ProposeStageResponse, error) {
	advice, withheld := s.advise()
	if withheld != "" {
		return &pb.ProposeStageResponse{Result: &pb.ProposeStageResponse_Accept{Accept: &pb.AcceptResult{}}}, nil
	}
	floors := []*pb.ComponentTarget{floor(cmp.Or(s.planner.Component, componentDecode), advice.Replicas)}
	if roles := advice.View.Decision.ByRole; roles != nil {
		floors = []*pb.ComponentTarget{floor(componentPrefill, roles.Prefill), floor(componentDecode, roles.Decode)}
	}
	return &pb.ProposeStageResponse{Result: &pb.ProposeStageResponse_Override{
		Override: &pb.OverrideResult{Targets: floors, Reason: reason(advice)},
	}}, nil
}

func floor(component string, replicas int) *pb.ComponentTarget {
	return &pb.ComponentTarget{SubComponentType: component, Replicas: new(int32(replicas)), Type: pb.OverrideType_AT_LEAST}
}

// Predict returns the load on the workers until more can be ready.
func (s *plugin) Predict(_ context.Context, request *pb.PredictStageRequest) (*pb.PredictStageResponse, error) {
	advice, withheld := s.advise()
	if withheld != "" {
		return &pb.PredictStageResponse{Reason: withheld}, nil
	}
	if advice.View.Decision.Confidence == forecaster.Cold {
		return &pb.PredictStageResponse{Reason: "less than an hour of traffic is known, too little to predict from"}, nil
	}
	p, ok := predict(advice.View, request.GetContext().GetObservations().GetTraffic())
	if !ok {
		return &pb.PredictStageResponse{Reason: "the forecast has no requests, or the planner has observed none"}, nil
	}
	p.Source = s.planner.PluginID(Predict)
	return &pb.PredictStageResponse{Predictions: p, Reason: reason(advice)}, nil
}

// Bootstrap does nothing: all data comes from telemetry.
func (s *plugin) Bootstrap(context.Context, *pb.BootstrapRequest) (*pb.BootstrapResponse, error) {
	return &pb.BootstrapResponse{Ok: true}, nil
}

// Reset does nothing: the plug-in has no state of the planner.
func (s *plugin) Reset(context.Context, *pb.ResetRequest) (*pb.ResetResponse, error) {
	return &pb.ResetResponse{Ok: true}, nil
}

// advise returns the advice for the planner's pool, or why there is none. That is no error, because the planner counts
// errors of a plug-in.
func (s *plugin) advise() (a server.Advice, withheld string) {
	a, err := server.Advise(s.reader, s.planner.Pool, server.RoleAll, time.Now())
	if err != nil {
		return a, err.Error()
	}
	return a, ""
}

// reason names the decision, for the planner's audit log.
func reason(a server.Advice) string {
	d := a.View.Decision
	return d.EventID() + ": " + d.Reason
}
