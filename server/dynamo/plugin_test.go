package dynamo

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/server"
	pb "github.com/forewarm/forewarm/server/dynamo/pluginpb"
)

// daemon is a server.Reader with one pool, chat.
type daemon struct{ view server.PoolView }

func (d *daemon) Status() server.Status    { return server.Status{Clock: "event"} }
func (d *daemon) Pools() []server.PoolView { return []server.PoolView{d.view} }

// rising is a forecast that rises by base each minute. All its quantiles are equal.
func rising(dimension string, base float64) forecaster.Forecast {
	f := forecaster.Forecast{Key: features.Key{Pool: "chat", Class: features.TotalClass}, Dimension: dimension}
	for h := range f.Minute {
		for l := range f.Minute[h] {
			f.Minute[h][l] = base * float64(h+1)
		}
	}
	return f
}

// newDaemon asks for 7 replicas. In ten minutes, when they can be ready, it expects 20 requests a second, each with 100
// tokens of prefill and 30 of output.
func newDaemon() *daemon {
	at := time.Now()
	return &daemon{server.PoolView{
		Pool: "chat", Decided: at,
		Decision: &alerting.Decision{
			Lead: 9*time.Minute + time.Second,
			Pool: "chat", Generation: 42, Tick: at, Expires: at.Add(15 * time.Minute), Mode: alerting.Active, Desired: 7,
			Quantile: 0.95, Confidence: forecaster.Warm, Reason: "Load doubles.",
		},
		Forecast: forecaster.PoolForecast{
			Total:   []forecaster.Forecast{rising(features.DimRequests, 2), rising(features.DimPrefill, 200), rising(features.DimDecode, 60)},
			Classes: []forecaster.Forecast{{Key: features.Key{Pool: "chat", Class: "agent"}, Dimension: features.DimRequests}},
		},
	}}
}

func observed(t *pb.TrafficMetrics) *pb.PipelineContext {
	return &pb.PipelineContext{Observations: &pb.ObservationData{Traffic: t}}
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
		"expired":         {Planner{Pool: "chat"}, func(d *daemon) { d.view.Decided = time.Now().Add(-time.Hour) }, accept},
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

func TestPredict(t *testing.T) {
	minute := &pb.TrafficMetrics{DurationS: 60}
	hits := &pb.TrafficMetrics{DurationS: 30, KvHitRate: proto.Float32(0.75)}
	tests := map[string]struct {
		change func(*daemon)
		seen   *pb.TrafficMetrics
		want   *pb.PredictionData // nil is no prediction
		reason string
	}{
		"a minute":           {nil, minute, &pb.PredictionData{PredictedNumReq: proto.Float32(1200), PredictedIsl: proto.Float32(100), PredictedOsl: proto.Float32(30)}, "chat-42: Load doubles."},
		"with a hit rate":    {nil, hits, &pb.PredictionData{PredictedNumReq: proto.Float32(600), PredictedIsl: proto.Float32(400), PredictedOsl: proto.Float32(30), PredictedKvHitRate: proto.Float32(0.75)}, "chat-42"},
		"lengths not known":  {func(d *daemon) { d.view.Forecast.Total = d.view.Forecast.Total[:1] }, minute, &pb.PredictionData{PredictedNumReq: proto.Float32(1200)}, "chat-42"},
		"requests not known": {func(d *daemon) { d.view.Forecast.Total = d.view.Forecast.Total[1:] }, minute, nil, "no requests"},
		"not a number": {func(d *daemon) {
			for l := range forecaster.NumLevels {
				d.view.Forecast.Total[0].Minute[3][l] = math.NaN()
			}
		}, minute, &pb.PredictionData{PredictedNumReq: proto.Float32(1200), PredictedIsl: proto.Float32(100), PredictedOsl: proto.Float32(30)}, "chat-42"},
		"no traffic observed": {nil, nil, nil, "planner has observed none"},
		"stale":               {func(d *daemon) { d.view.Decision.Withheld = "its telemetry is stale" }, minute, nil, "stale"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDaemon()
			if tt.change != nil {
				tt.change(d)
			}
			s := &plugin{planner: Planner{Pool: "chat"}, reader: d}
			got, err := s.Predict(t.Context(), &pb.PredictStageRequest{Context: observed(tt.seen)})
			if err != nil {
				t.Fatal(err)
			}
			if tt.want != nil {
				tt.want.Source = "forewarm-chat-predict"
			}
			if diff := cmp.Diff(tt.want, got.Predictions, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(got.Reason, tt.reason) {
				t.Errorf("reason %q, want %q", got.Reason, tt.reason)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	valid := Planner{Pool: "chat", Listen: "127.0.0.1:0"}
	if err := (Config{Planners: []Planner{valid, {Pool: "chat", Listen: "127.0.0.1:1", Stages: []Stage{Predict, Propose}}}}).Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Planner){
		"planners[0].pool: ":        func(p *Planner) { p.Pool = "" },
		"planners[0].component: ":   func(p *Planner) { p.Component = "encode" },
		"planners[0].stages: ":      func(p *Planner) { p.Stages = []Stage{"constrain"} },
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
