package daemon

import (
	"context"
	"fmt"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/forewarm/forewarm/server/dynamo"
	"github.com/forewarm/forewarm/server/keda"
	"github.com/forewarm/forewarm/server/rpc"
)

// openScalers opens the listeners that have an address.
func (d *Daemon) openScalers(context.Context) error {
	if d.cfg.KEDA.Listen != "" {
		s, err := d.openScaler("keda", "keda", d.cfg.KEDA)
		if err != nil {
			return err
		}
		keda.Register(s, d)
	}
	for i, p := range d.cfg.Dynamo.Planners {
		s, err := d.openScaler("dynamo", fmt.Sprintf("dynamo.planners[%d]", i), p.RPC())
		if err != nil {
			return err
		}
		dynamo.Register(s, p, d)
	}
	return nil
}

// openScaler opens a listener without services. key is its key in the configuration.
func (d *Daemon) openScaler(service, key string, c rpc.Config) (*rpc.Server, error) {
	s, err := rpc.Open(key, c, func(method string, code codes.Code) { d.exporter.CountCall(service, method, code.String()) }, d.log)
	if err != nil {
		return nil, ConfigError{err}
	}
	d.onClose(func() error { s.Close(); return nil })
	d.scalers = append(d.scalers, s)
	d.log.Info("answering autoscalers", zap.String("service", service), zap.String("address", s.Addr().String()))
	return s, nil
}
