package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/internal/tlsconfig"
	pb "github.com/forewarm/forewarm/server/dynamo/pluginpb"
)

const (
	protocolVersion = "1.0"
	callTimeout     = 5 * time.Second
)

// pace is how often a registrar calls.
type pace struct {
	heartbeat              time.Duration
	firstBackoff, maxAfter time.Duration // bounds of the exponential backoff before a retry
}

// usualPace has heartbeats at a third of the planner's timeout, so that one may be lost.
var usualPace = pace{heartbeat: 5 * time.Second, firstBackoff: time.Second, maxAfter: 30 * time.Second}

// Registrar keeps the stages of a planner registered at its gateway while it runs.
type Registrar struct {
	planner  Planner
	endpoint string
	version  string
	conn     *grpc.ClientConn
	client   pb.PluginRegistryClient
	log      *zap.Logger
	pace     pace

	registered map[Stage]*atomic.Bool
}

// NewRegistrar connects to nothing yet. listen is the actual address of Planner.Listen, version the program's. Errors
// name the key.
func NewRegistrar(p Planner, listen, version string, log *zap.Logger) (*Registrar, error) {
	secure := insecure.NewCredentials()
	if p.RegistryTLS != (tlsconfig.Client{}) {
		c, err := p.RegistryTLS.Open()
		if err != nil {
			return nil, fmt.Errorf("registry_tls.%w", err)
		}
		secure = credentials.NewTLS(c)
	}
	conn, err := grpc.NewClient(p.Registry, grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, fmt.Errorf("registry is %q: %w; write host:port of the planner's gateway", p.Registry, err)
	}
	r := &Registrar{
		planner: p, endpoint: cmp.Or(p.Endpoint, "grpc://"+listen), version: version, conn: conn, client: pb.NewPluginRegistryClient(conn), log: log, pace: usualPace,
		registered: map[Stage]*atomic.Bool{},
	}
	for _, s := range p.stages() {
		r.registered[s] = new(atomic.Bool)
	}
	return r, nil
}

// Registered reports whether the planner has accepted a stage, as far as known.
func (r *Registrar) Registered(s Stage) bool { return r.registered[s].Load() }

// Stages are the stages to register.
func (r *Registrar) Stages() []Stage { return r.planner.stages() }

// Run registers the stages, sends heartbeats, and registers again if the planner does not know a stage any more. When
// ctx ends, it unregisters.
func (r *Registrar) Run(ctx context.Context) error {
	var stages sync.WaitGroup
	for _, s := range r.planner.stages() {
		stages.Go(func() { r.keep(ctx, s) })
	}
	stages.Wait()
	return r.conn.Close()
}

// keep keeps one stage registered.
func (r *Registrar) keep(ctx context.Context, s Stage) {
	complaint := ""
	for wait := r.pace.firstBackoff; ctx.Err() == nil; wait = min(2*wait, r.pace.maxAfter) {
		err := r.register(ctx, s)
		if err == nil {
			r.registered[s].Store(true)
			r.log.Info("the planner has accepted the plug-in", r.fields(s)...)
			wait, complaint = r.pace.firstBackoff, ""
			err = r.heartbeats(ctx, s)
			r.registered[s].Store(false)
		}
		if ctx.Err() != nil {
			break
		}
		if text := err.Error(); text != complaint { // log an outage once
			complaint = text
			r.log.Warn("the planner does not have the plug-in", append(r.fields(s), zap.Error(err))...)
		}
		sleep.For(ctx, wait)
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_ = r.unregister(leave, s, "graceful_shutdown") // on an error, the planner detects it by missing heartbeats
}

// register registers a stage. It first unregisters an earlier process, which may have had another address.
func (r *Registrar) register(ctx context.Context, s Stage) error {
	if err := r.unregister(ctx, s, "restart"); err != nil {
		return err
	}
	token, err := r.token()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := r.client.Register(ctx, r.announcement(s, token))
	if err != nil {
		return err
	}
	if !answer.GetAccepted() {
		return fmt.Errorf("refused: %s", answer.GetRejectReason())
	}
	return nil
}

// announcement is how the planner should call a stage: propose at each planner tick, predict once per interval. The
// planner keeps no result between calls, so a minimum ends with the daemon.
func (r *Registrar) announcement(s Stage, token string) *pb.RegisterRequest {
	a := &pb.RegisterRequest{
		PluginId: r.planner.PluginID(s), PluginType: string(s), Priority: uint32(cmp.Or(r.planner.Priority, 10)), Endpoint: r.endpoint, Version: r.version,
		HoldPolicy: pb.HoldPolicy_ACCEPT_WHEN_IDLE, ProtocolVersion: protocolVersion, AuthToken: token,
	}
	if s == Predict {
		const traffic = "observations.traffic"
		a.Needs, a.RequiresProducedFields = []string{traffic}, []string{traffic}
		a.ExecutionIntervalSeconds = float32(cmp.Or(r.planner.Interval, time.Minute).Seconds())
		a.ObservationWindowSeconds = a.ExecutionIntervalSeconds
	}
	return a
}

// errForgotten means that the planner does not know the plug-in any more, such as after its restart.
var errForgotten = errors.New("the planner has forgotten the plug-in")

// heartbeats sends heartbeats until one fails.
func (r *Registrar) heartbeats(ctx context.Context, s Stage) error {
	for {
		if !sleep.For(ctx, r.pace.heartbeat) {
			return ctx.Err()
		}
		token, err := r.token()
		if err != nil {
			return err
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		answer, err := r.client.Heartbeat(call, &pb.HeartbeatRequest{PluginId: r.planner.PluginID(s), AuthToken: token})
		cancel()
		if err != nil {
			return err
		}
		if !answer.GetOk() {
			return errForgotten
		}
	}
}

func (r *Registrar) unregister(ctx context.Context, s Stage, reason string) error {
	token, err := r.token()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = r.client.Unregister(ctx, &pb.UnregisterRequest{PluginId: r.planner.PluginID(s), Reason: reason, AuthToken: token})
	return err
}

// token reads the file each time, because tokens of service accounts are renewed.
func (r *Registrar) token() (string, error) {
	if r.planner.TokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(r.planner.TokenFile)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func (r *Registrar) fields(s Stage) []zap.Field {
	return []zap.Field{zap.String("registry", r.planner.Registry), zap.String("plugin", r.planner.PluginID(s))}
}
