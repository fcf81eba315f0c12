package dynamo

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/forewarm/forewarm/server"
	pb "github.com/forewarm/forewarm/server/dynamo/pluginpb"
)

// The kinds of workers.
const (
	componentPrefill = "prefill"
	componentDecode  = "decode" // also workers that do both
)

type plugin struct {
	pb.UnimplementedProposePluginServer
	pb.UnimplementedPluginLifecycleServer
	planner Planner
	reader  server.Reader
}

// Register adds the plug-in of a planner to a gRPC server.
func Register(to grpc.ServiceRegistrar, p Planner, reader server.Reader) {
	s := &plugin{planner: p, reader: reader}
	pb.RegisterProposePluginServer(to, s)
	pb.RegisterPluginLifecycleServer(to, s)
}

// Propose returns the minimum of workers of the pool; in a disaggregated pool, one for each role.
func (s *plugin) Propose(context.Context, *pb.ProposeStageRequest) (*pb.ProposeStageResponse, error) {
	replicas, v, err := server.Advise(s.reader, s.planner.Pool, server.RoleAll, time.Now())
	if err != nil { // without advice there is no error for the planner, because it counts errors of a plug-in
		return &pb.ProposeStageResponse{Result: &pb.ProposeStageResponse_Accept{Accept: &pb.AcceptResult{}}}, nil
	}
	floors := []*pb.ComponentTarget{floor(cmp.Or(s.planner.Component, componentDecode), replicas)}
	if roles := v.Decision.ByRole; roles != nil {
		floors = []*pb.ComponentTarget{floor(componentPrefill, roles.Prefill), floor(componentDecode, roles.Decode)}
	}
	return &pb.ProposeStageResponse{Result: &pb.ProposeStageResponse_Override{
		Override: &pb.OverrideResult{Targets: floors, Reason: v.Decision.EventID() + ": " + v.Decision.Reason}, // for the audit log
	}}, nil
}

func floor(component string, replicas int) *pb.ComponentTarget {
	return &pb.ComponentTarget{SubComponentType: component, Replicas: new(int32(replicas)), Type: pb.OverrideType_AT_LEAST}
}

// Bootstrap does nothing: all data comes from telemetry.
func (s *plugin) Bootstrap(context.Context, *pb.BootstrapRequest) (*pb.BootstrapResponse, error) {
	return &pb.BootstrapResponse{Ok: true}, nil
}

// Reset does nothing: the plug-in has no state of the planner.
func (s *plugin) Reset(context.Context, *pb.ResetRequest) (*pb.ResetResponse, error) {
	return &pb.ResetResponse{Ok: true}, nil
}
