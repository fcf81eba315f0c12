package keda

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	pb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
	"github.com/forewarm/forewarm/server/rpc"
)

// daemon is a server.Reader with one pool, chat, that changes.
type daemon struct {
	mu   sync.Mutex
	view server.PoolView
}

func newDaemon() *daemon {
	at := time.Now()
	return &daemon{view: server.PoolView{PoolOutput: pipeline.PoolOutput{
		Pool: "chat", Projection: &forecaster.Projection{},
		Decision: &alerting.Decision{Pool: "chat", Tick: at, Expires: at.Add(15 * time.Minute), Mode: alerting.Active, Desired: 7, Confidence: forecaster.Warm},
	}}}
}

func (d *daemon) Status() server.Status {
	return server.Status{Clock: "event", Tick: time.Unix(1, 0), TickedAt: time.Now()}
}

func (d *daemon) Pools() []server.PoolView {
	d.mu.Lock()
	defer d.mu.Unlock()
	return []server.PoolView{d.view}
}

func (d *daemon) decide(change func(*alerting.Decision)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := *d.view.Decision
	change(&next)
	d.view.Decision = &next
}

func dial(t *testing.T, d *daemon) pb.ExternalScalerClient {
	t.Helper()
	c := rpc.Config{}
	c.Listen = "127.0.0.1:0"
	s := must(rpc.Open("keda", c, func(string, codes.Code) {}))
	Register(s, d)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	conn := must(grpc.NewClient(s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, conn.Close()); err != nil {
			t.Error(err)
		}
	})
	return pb.NewExternalScalerClient(conn)
}

func ref(metadata ...string) *pb.ScaledObjectRef {
	r := &pb.ScaledObjectRef{Name: "chat", Namespace: "llm", ScalerMetadata: map[string]string{"scalerAddress": "forewarm:9465", "pool": "chat"}}
	for i := 0; i < len(metadata); i += 2 {
		r.ScalerMetadata[metadata[i]] = metadata[i+1]
	}
	return r
}

func TestMetrics(t *testing.T) {
	tests := map[string]struct {
		ref    *pb.ScaledObjectRef
		metric string // "" is MetricName
		change func(*alerting.Decision)
		want   float64
		code   codes.Code
	}{
		"desired":        {ref: ref(), want: 7},
		"by environment": {ref: ref("pool", "", "poolFromEnv", "chat"), want: 7},
		"all roles":      {ref: ref("role", "all"), want: 7},
		"scaled to zero": {ref: ref(), change: func(d *alerting.Decision) { d.Desired = 0 }, want: 0},
		"advisory":       {ref: ref(), change: advisory, code: codes.Unavailable},
		"stale":          {ref: ref(), change: func(d *alerting.Decision) { d.Withheld = "its telemetry is stale" }, code: codes.Unavailable},
		"cold":           {ref: ref(), change: func(d *alerting.Decision) { d.Withheld = "less than 5 min of its traffic is known" }, code: codes.Unavailable},
		"unknown pool":   {ref: ref("pool", "chatt"), code: codes.NotFound},
		"no pool":        {ref: ref("pool", ""), code: codes.InvalidArgument},
		"no reference":   {code: codes.InvalidArgument},
		"keys of KEDA": {ref: ref("enableTLS", "true", "unsafeSsl", "false", "caCert", "x", "tlsClientCert", "x", "tlsClientKey", "x", "tlsCertFile", "x",
			"metricType", "AverageValue", "useCachedMetrics", "true", "name", "x", "type", "external"), want: 7},
		"upper case":     {ref: ref("Role", "all"), code: codes.InvalidArgument},
		"plural":         {ref: ref("roles", "decode"), code: codes.InvalidArgument},
		"short":          {ref: ref("rol", "decode"), code: codes.InvalidArgument},
		"of environment": {ref: ref("RolesFromEnv", "decode"), code: codes.InvalidArgument},
		"dashed":         {ref: ref("po-ol", "chat"), code: codes.InvalidArgument},
		"no such role":   {ref: ref("role", "decoder"), code: codes.InvalidArgument},
		"another metric": {ref: ref(), metric: "cpu", code: codes.InvalidArgument},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDaemon()
			if tt.change != nil {
				d.decide(tt.change)
			}
			client := dial(t, d)
			if tt.metric == "" {
				tt.metric = MetricName
			}
			got, err := client.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: tt.ref, MetricName: tt.metric})
			if status.Code(err) != tt.code {
				t.Fatalf("%v, want %s", err, tt.code)
			}
			if err == nil {
				if len(got.MetricValues) != 1 || got.MetricValues[0].MetricName != MetricName || got.MetricValues[0].MetricValueFloat != tt.want || got.MetricValues[0].MetricValue != int64(tt.want) {
					t.Errorf("%v, want %g", got, tt.want)
				}
			} else if len(got.GetMetricValues()) > 0 {
				t.Errorf("an error with values: %v", got)
			}
			if tt.metric != MetricName {
				return
			}
			active, err := client.IsActive(t.Context(), tt.ref)
			if status.Code(err) != tt.code || active.GetResult() != (err == nil && tt.want > 0) {
				t.Errorf("active: %v, %v", active, err)
			}
		})
	}
}

func advisory(d *alerting.Decision) { d.Mode = alerting.Advisory }

// TestSpec: both methods return the same specification, also without advice for the pool.
func TestSpec(t *testing.T) {
	d := newDaemon()
	d.decide(func(d *alerting.Decision) { d.Withheld = "its telemetry is stale" })
	client := dial(t, d)
	pulled := must(client.GetMetricSpec(t.Context(), ref()))
	if len(pulled.MetricSpecs) != 1 || pulled.MetricSpecs[0].MetricName != MetricName || pulled.MetricSpecs[0].TargetSize != 1 || pulled.MetricSpecs[0].TargetSizeFloat != 1 {
		t.Errorf("%v", pulled)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream := must(client.StreamMetricSpec(ctx, ref()))
	pushed, err := stream.Recv()
	if err != nil || pushed.String() != pulled.String() {
		t.Errorf("pushed %v (%v), pulled %v", pushed, err, pulled)
	}
	cancel()
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("the stream ended before its client cancelled it: %v", err)
	}
	for _, bad := range []*pb.ScaledObjectRef{nil, ref("Pool", "chat")} {
		if _, err := client.GetMetricSpec(t.Context(), bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
		stream, err := client.StreamMetricSpec(t.Context(), bad)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("stream of %v: %v", bad, err)
		}
	}
}

// TestStreamIsActive: each change is one message. Without advice there is an error, not false.
func TestStreamIsActive(t *testing.T) {
	d := newDaemon()
	stream := must(dial(t, d).StreamIsActive(t.Context(), ref()))
	for _, step := range []struct {
		desired int
		want    bool
	}{{7, true}, {0, false}, {3, true}} {
		d.decide(func(d *alerting.Decision) { d.Desired = step.desired })
		got, err := stream.Recv()
		if err != nil || got.Result != step.want {
			t.Fatalf("%d replicas: %v, %v", step.desired, got, err)
		}
	}
	d.decide(func(d *alerting.Decision) { d.Withheld = "its telemetry is stale" })
	if got, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("stale: %v, %v", got, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
