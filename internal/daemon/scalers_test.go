package daemon

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/forewarm/forewarm/internal/testenv"
	dynamopb "github.com/forewarm/forewarm/server/dynamo/pluginpb"
	"github.com/forewarm/forewarm/server/keda"
	kedapb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// TestScalers: every kind of autoscaler gets the same number from a daemon. When the pool is stale, none gets a number.
func TestScalers(t *testing.T) {
	t.Parallel()
	kedaAddress, dynamoAddress := testenv.FreeAddress(t), testenv.FreeAddress(t)
	p := startDaemon(t,
		"clock: event", "features: {lateness: 0s, stale_after: 2m}", "decision: {mode: active}", "keda: {listen: '"+kedaAddress+"'}",
		"dynamo: {planners: [{pool: chat, listen: '"+dynamoAddress+"'}]}",
		"pools: [{name: chat, decode_tokens_per_s: 100, replicas: {min: 1, max: 9}}, {name: batch, decode_tokens_per_s: 400, replicas: {max: 9}}]",
	)
	dial := func(address string) *grpc.ClientConn {
		conn := must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	scaler := kedapb.NewExternalScalerClient(dial(kedaAddress))
	byKEDA := func() (float64, error) {
		got, err := scaler.GetMetrics(t.Context(), &kedapb.GetMetricsRequest{
			MetricName: keda.MetricName, ScaledObjectRef: &kedapb.ScaledObjectRef{ScalerMetadata: map[string]string{"pool": "chat"}}})
		if err != nil {
			return 0, err
		}
		return got.MetricValues[0].MetricValueFloat, nil
	}
	if n, err := byKEDA(); status.Code(err) != codes.Unavailable {
		t.Errorf("before any telemetry: %g, %v", n, err)
	}

	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	const minutes, perMinute = 70, 30
	for m := range minutes {
		p.publishMinute(t, "chat.talk", start.Add(time.Duration(m)*time.Minute), perMinute, 500, 400)
	}
	p.settle(t)

	desired := testenv.Metric(t, p.base, `forewarm_desired_replicas{pool="chat",role="all"}`)
	if desired < 2 {
		t.Fatalf("%g replicas desired", desired)
	}
	if _, page := testenv.Get(p.base + "/readyz"); !strings.Contains(page, "no telemetry yet of batch: ") {
		t.Errorf("/readyz does not name the configured pool without telemetry: %s", page)
	}
	if n, err := byKEDA(); err != nil || n != desired {
		t.Errorf("KEDA gets %g (%v), want %g", n, err, desired)
	}
	if n, code := desiredOverHTTP(t, p); code != http.StatusOK || n != desired {
		t.Errorf("over HTTP: %g, status %d, want %g", n, code, desired)
	}
	plugin := dial(dynamoAddress)
	proposed, err := dynamopb.NewProposePluginClient(plugin).Propose(t.Context(), &dynamopb.ProposeStageRequest{})
	if targets := proposed.GetOverride().GetTargets(); err != nil || len(targets) != 1 || float64(targets[0].GetReplicas()) != desired || targets[0].Type != dynamopb.OverrideType_AT_LEAST {
		t.Errorf("the planner gets %v (%v), want %g at least", proposed, err, desired)
	}
	_, exposition := testenv.Get(p.base + "/metrics")
	t.Run("metrics", func(t *testing.T) { lintMetrics(t, exposition) })

	// The telemetry of another pool advances the time. Pool chat has no telemetry, which does not mean zero traffic.
	for m := range 10 {
		p.publishMinute(t, "batch.talk", start.Add((minutes+time.Duration(m))*time.Minute), 2, 500, 400)
	}
	p.settle(t)
	if n, err := byKEDA(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "stale") {
		t.Errorf("stale: KEDA gets %g (%v)", n, err)
	}
	if n, code := desiredOverHTTP(t, p); code != http.StatusServiceUnavailable {
		t.Errorf("stale, over HTTP: %g, status %d", n, code)
	}
	proposed, err = dynamopb.NewProposePluginClient(plugin).Propose(t.Context(), &dynamopb.ProposeStageRequest{})
	if err != nil || proposed.GetAccept() == nil {
		t.Errorf("stale: the planner gets %v (%v)", proposed, err)
	}
	if valid := testenv.Metric(t, p.base, `forewarm_advice_valid{pool="chat",mode="active"}`); valid != 0 {
		t.Errorf("stale: forewarm_advice_valid is %g", valid)
	}
}

func desiredOverHTTP(t *testing.T, p *inProcess) (n float64, code int) {
	t.Helper()
	var answer struct {
		Desired float64 `json:"desired_replicas"`
	}
	code = p.getJSON(t, "/api/v1/pools/chat/desired", &answer)
	return answer.Desired, code
}

// lintMetrics runs promtool's linter on an exposition. It ignores problems with names that libraries choose.
func lintMetrics(t testing.TB, exposition string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Program(t, "prometheus", "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(exposition)
	out, err := cmd.CombinedOutput() // promtool also fails if it reports problems in out
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "go_") && !strings.HasPrefix(line, "process_") {
			t.Error(strings.TrimSpace(line))
		}
	}
}
