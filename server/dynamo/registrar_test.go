package dynamo

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	pb "github.com/forewarm/forewarm/server/dynamo/pluginpb"
)

// registry answers as the gateway of a planner does by its published contract and source (registry/server.py, gateway.py):
// tokens must be known, a plug-in registers once until it is taken off, and a heartbeat of an unknown one is not ok.
type registry struct {
	pb.UnimplementedPluginRegistryServer
	token string
	news  chan struct{} // something may have changed

	mu         sync.Mutex
	plugins    map[string]*pb.RegisterRequest
	heartbeats map[string]int
	left       []string // plug-in and reason
	refused    int
}

func (g *registry) Register(_ context.Context, r *pb.RegisterRequest) (*pb.RegisterResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	reason := ""
	switch {
	case r.AuthToken != g.token:
		reason = "auth_failed"
	case r.ProtocolVersion != "1.0":
		reason = "protocol_version_unsupported"
	case g.plugins[r.PluginId] != nil:
		reason = "duplicate_plugin_id: must Unregister before re-Register"
	}
	if reason != "" {
		g.refused++
		return &pb.RegisterResponse{RejectReason: reason}, nil
	}
	g.plugins[r.PluginId] = r
	return &pb.RegisterResponse{Accepted: true, NegotiatedProtocolVersion: r.ProtocolVersion}, nil
}

func (g *registry) Heartbeat(_ context.Context, r *pb.HeartbeatRequest) (*pb.HeartbeatResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer tell(g.news)
	if r.AuthToken != g.token {
		return nil, status.Error(codes.Unauthenticated, "heartbeat: auth_failed")
	}
	g.heartbeats[r.PluginId]++
	return &pb.HeartbeatResponse{Ok: g.plugins[r.PluginId] != nil}, nil
}

func (g *registry) Unregister(_ context.Context, r *pb.UnregisterRequest) (*pb.UnregisterResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.AuthToken != g.token {
		return nil, status.Error(codes.Unauthenticated, "unregister: auth_failed")
	}
	if g.plugins[r.PluginId] == nil {
		return &pb.UnregisterResponse{}, nil
	}
	delete(g.plugins, r.PluginId)
	g.left = append(g.left, r.PluginId+" "+r.Reason)
	return &pb.UnregisterResponse{Ok: true}, nil
}

// serve runs a registry at an address, "" for a free one, until stop.
func serve(t *testing.T, g *registry, address string) (at string, stop func()) {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterPluginRegistryServer(s, g)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	stop = sync.OnceFunc(func() {
		s.Stop()
		<-ended
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func newRegistry(token string, news chan struct{}) *registry {
	return &registry{token: token, news: news, plugins: map[string]*pb.RegisterRequest{}, heartbeats: map[string]int{}}
}

// tell wakes the one who waits for news, and never waits for it.
func tell(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// TestRegistrar lives through what can befall a registration: an earlier self that is still known, a planner that forgets,
// one that is started again, and a token that changes.
func TestRegistrar(t *testing.T) {
	news := make(chan struct{}, 1)
	log := zaptest.NewLogger(t, zaptest.WrapOptions(zap.Hooks(func(zapcore.Entry) error { // of each registration, and of its end
		tell(news)
		return nil
	})))
	g := newRegistry("one", news)
	const predict, propose = "forewarm-chat-predict", "forewarm-chat-propose"
	g.plugins[propose] = &pb.RegisterRequest{PluginId: propose, Endpoint: "grpc://of-an-earlier-self:1"}
	address, stopRegistry := serve(t, g, "")
	token := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		if err := os.WriteFile(token, []byte(s+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	r, err := NewRegistrar(Planner{Pool: "chat", Stages: []Stage{Predict, Propose}, Registry: address, TokenFile: token}, "127.0.0.1:9466", "v1", log)
	if err != nil {
		t.Fatal(err)
	}
	r.pace = pace{heartbeat: 5 * time.Millisecond, firstBackoff: 5 * time.Millisecond, maxAfter: 20 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()

	await := func(what string, done func() bool) {
		t.Helper()
		for patience := time.After(20 * time.Second); !done(); {
			select {
			case <-news:
			case <-patience:
				t.Fatal("waited for ", what)
			}
		}
	}
	both := func(g *registry) func() bool {
		return func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.plugins[predict] != nil && g.plugins[propose] != nil && g.heartbeats[predict] > 1 && g.heartbeats[propose] > 1 &&
				r.Registered(Predict) && r.Registered(Propose)
		}
	}
	await("both stages", both(g))
	g.mu.Lock()
	if !slices.Contains(g.left, propose+" restart") {
		t.Errorf("the earlier self is still there: %q", g.left)
	}
	announced := func(id, stage string) *pb.RegisterRequest {
		return &pb.RegisterRequest{PluginId: id, PluginType: stage, Priority: 10, Endpoint: "grpc://127.0.0.1:9466", Version: "v1", ProtocolVersion: "1.0", AuthToken: "one"}
	}
	want := map[string]*pb.RegisterRequest{predict: announced(predict, "predict"), propose: announced(propose, "propose")}
	want[predict].Needs, want[predict].RequiresProducedFields = []string{"observations.traffic"}, []string{"observations.traffic"}
	want[predict].ExecutionIntervalSeconds, want[predict].ObservationWindowSeconds = 60, 60
	if diff := cmp.Diff(want, g.plugins, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	delete(g.plugins, predict)
	g.heartbeats[predict] = 0
	g.mu.Unlock()
	await("the planner to be told again", both(g))

	stopRegistry()
	await("the end of the planner to be noticed", func() bool { return !r.Registered(Predict) && !r.Registered(Propose) })
	again := newRegistry("two", news)
	serve(t, again, address)
	await("a refusal", func() bool {
		again.mu.Lock()
		defer again.mu.Unlock()
		return !r.Registered(Predict) && len(again.plugins) == 0
	})
	write("two")
	await("the new token to be used", both(again))

	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	slices.Sort(again.left)
	if want := []string{predict + " graceful_shutdown", propose + " graceful_shutdown"}; !slices.Equal(again.left, want) {
		t.Errorf("left %q, want %q", again.left, want)
	}
}
