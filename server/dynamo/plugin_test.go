package dynamo

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	pb "github.com/forewarm/forewarm/server/dynamo/pluginpb"
)

// daemon is a server.Reader with one pool, chat.
type daemon struct {
	view   server.PoolView
	ticked time.Time
}

func (d *daemon) Status() server.Status    { return server.Status{Clock: "event", TickedAt: d.ticked} }
func (d *daemon) Pools() []server.PoolView { return []server.PoolView{d.view} }

// newDaemon asks for 7 replicas.
func newDaemon() *daemon {
	at := time.Now()
	return &daemon{ticked: at, view: server.PoolView{PoolOutput: pipeline.PoolOutput{
		Pool: "chat",
		Decision: &alerting.Decision{
			Pool: "chat", Generation: 42, Tick: at, Expires: at.Add(15 * time.Minute), Mode: alerting.Active, Desired: 7,
			Quantile: 0.95, Confidence: forecaster.Warm, Reason: "Load doubles.",
		},
	}}}
}

func TestPropose(t *testing.T) {
	floor := func(component string) *pb.ProposeStageResponse {
		return &pb.ProposeStageResponse{Result: &pb.ProposeStageResponse_Override{Override: &pb.OverrideResult{
			Targets: []*pb.ComponentTarget{{SubComponentType: component, Replicas: proto.Int32(7), Type: pb.OverrideType_AT_LEAST}},
			Reason:  "chat-42: Load doubles.",
		}}}
	}
	both := &pb.ProposeStageResponse{Result: &pb.ProposeStageResponse_Override{Override: &pb.OverrideResult{
		Targets: []*pb.ComponentTarget{
			{SubComponentType: "prefill", Replicas: proto.Int32(3), Type: pb.OverrideType_AT_LEAST},
			{SubComponentType: "decode", Replicas: proto.Int32(7), Type: pb.OverrideType_AT_LEAST},
		},
		Reason: "chat-42: Load doubles.",
	}}}
	accept := &pb.ProposeStageResponse{Result: &pb.ProposeStageResponse_Accept{Accept: &pb.AcceptResult{}}}
	tests := map[string]struct {
		planner Planner
		change  func(*daemon)
		want    *pb.ProposeStageResponse
	}{
		"decode workers":  {Planner{Pool: "chat"}, nil, floor("decode")},
		"prefill workers": {Planner{Pool: "chat", Component: "prefill"}, nil, floor("prefill")},
		"disaggregated":   {Planner{Pool: "chat"}, func(d *daemon) { d.view.Decision.ByRole = &alerting.Roles{Prefill: 3, Decode: 7} }, both},
		"stale":           {Planner{Pool: "chat"}, func(d *daemon) { d.view.Decision.Withheld = "its telemetry is stale" }, accept},
		"cold":            {Planner{Pool: "chat"}, func(d *daemon) { d.view.Decision.Withheld = "less than 5 min of its traffic is known" }, accept},
		"expired":         {Planner{Pool: "chat"}, func(d *daemon) { d.ticked = time.Now().Add(-time.Hour) }, accept},
		"advisory":        {Planner{Pool: "chat"}, func(d *daemon) { d.view.Decision.Mode = alerting.Advisory }, accept},
		"unknown pool":    {Planner{Pool: "batch"}, nil, accept},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDaemon()
			if tt.change != nil {
				tt.change(d)
			}
			s := &plugin{planner: tt.planner, reader: d}
			got, err := s.Propose(t.Context(), &pb.ProposeStageRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	valid := Planner{Pool: "chat", Listen: "127.0.0.1:0"}
	if err := (Config{Planners: []Planner{valid, {Pool: "chat", Listen: "127.0.0.1:1"}}}).Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Planner){
		"planners[0].pool: ":        func(p *Planner) { p.Pool = "" },
		"planners[0].component: ":   func(p *Planner) { p.Component = "encode" },
		"planners[0].listen: ":      func(p *Planner) { p.Listen = "" },
		"planners[0].tls.cert_file": func(p *Planner) { p.TLS.KeyFile = "/key" },
	} {
		p := valid
		change(&p)
		if err := (Config{Planners: []Planner{p}}).Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := (Config{Planners: make([]Planner, maxPlanners+1)}).Check(); err == nil {
		t.Error("no error about too many planners")
	}
}
