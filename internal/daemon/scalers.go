package daemon

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/server/dynamo"
	"github.com/forewarm/forewarm/server/keda"
	"github.com/forewarm/forewarm/server/rpc"
)

// openScalers opens the listeners that have an address.
func (d *Daemon) openScalers() error {
	if d.cfg.KEDA.Listen != "" {
		s, err := d.openScaler("keda", d.cfg.KEDA)
		if err != nil {
			return err
		}
		keda.Register(s, d)
	}
	for i, p := range d.cfg.Dynamo.Planners {
		s, err := d.openScaler(fmt.Sprintf("dynamo.planners[%d]", i), p.RPC())
		if err != nil {
			return err
		}
		dynamo.Register(s, p, d)
	}
	return nil
}

// openScaler opens a listener without services. key is its key in the configuration.
func (d *Daemon) openScaler(key string, c rpc.Config) (*rpc.Server, error) {
	s, err := rpc.Open(key, c, d.log)
	if err != nil {
		return nil, err
	}
	d.onClose(func() error { s.Close(); return nil })
	d.scalers = append(d.scalers, s)
	d.exporter.Counter("forewarm_rpc_refused_total", "Calls of autoscalers that were refused because too many ran.", s.Refused, "listener", key)
	d.log.Info("answering autoscalers", zap.String("listener", key), zap.String("address", s.Addr().String()))
	return s, nil
}
