package daemon

import (
	"fmt"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/forewarm/forewarm/server/dynamo"
	"github.com/forewarm/forewarm/server/keda"
	"github.com/forewarm/forewarm/server/rpc"
)

// scaler is a gRPC listener for one kind of autoscaler.
type scaler struct {
	*rpc.Server
	service string
}

// openScalers opens the listeners that have an address.
func (d *Daemon) openScalers() error {
	if d.cfg.KEDA.Listen != "" {
		s, err := d.openScaler("keda", "keda", d.cfg.KEDA)
		if err != nil {
			return err
		}
		keda.Register(s, d)
	}
	for i, p := range d.cfg.Dynamo.Planners {
		if err := d.openPlanner(fmt.Sprintf("dynamo.planners[%d]", i), p); err != nil {
			return err
		}
	}
	return nil
}

// openPlanner opens the listener of one NVIDIA Dynamo planner, and prepares its registration. key is its key in the
// configuration.
func (d *Daemon) openPlanner(key string, p dynamo.Planner) error {
	s, err := d.openScaler("dynamo", key, p.RPC())
	if err != nil {
		return err
	}
	dynamo.Register(s, p, d)
	if p.Registry == "" {
		return nil
	}
	r, err := dynamo.NewRegistrar(p, s.Addr().String(), d.version, d.log)
	if err != nil {
		return fmt.Errorf("%s.%w", key, err)
	}
	d.registrars = append(d.registrars, r)
	for _, stage := range r.Stages() {
		d.exporter.Gauge(fmt.Sprintf("forewarm_dynamo_registered{plugin=%q}", p.PluginID(stage)),
			"1 while the planner has accepted the plug-in and takes its heartbeats.", func() float64 {
				if r.Registered(stage) {
					return 1
				}
				return 0
			})
	}
	return nil
}

// openScaler opens a listener without services. key is its key in the configuration.
func (d *Daemon) openScaler(service, key string, c rpc.Config) (*scaler, error) {
	s, err := rpc.Open(key, c, func(method string, code codes.Code) { d.exporter.CountCall(service, method, code.String()) }, d.log)
	if err != nil {
		return nil, err
	}
	d.onClose(func() error { s.Close(); return nil })
	d.scalers = append(d.scalers, &scaler{s, service})
	d.log.Info("answering autoscalers", zap.String("service", service), zap.String("address", s.Addr().String()))
	return d.scalers[len(d.scalers)-1], nil
}
