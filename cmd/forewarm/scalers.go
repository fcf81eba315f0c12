package main

import (
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/forewarm/forewarm/server/keda"
	"github.com/forewarm/forewarm/server/rpc"
)

// scaler is a gRPC listener at which autoscalers of one kind ask.
type scaler struct {
	*rpc.Server
	service string
}

// openScalers opens those that have an address.
func (d *daemon) openScalers() error {
	if d.cfg.KEDA.Listen == "" {
		return nil
	}
	s, err := d.openScaler("keda", "keda", d.cfg.KEDA)
	if err != nil {
		return err
	}
	keda.Register(s, d)
	return nil
}

// openScaler opens a listener without services. key is its place in the configuration.
func (d *daemon) openScaler(service, key string, c rpc.Config) (*scaler, error) {
	s, err := rpc.Open(key, c, func(method string, code codes.Code) { d.exporter.CountCall(service, method, code.String()) }, d.log)
	if err != nil {
		return nil, err
	}
	d.onClose(func() error { s.Close(); return nil })
	d.scalers = append(d.scalers, &scaler{s, service})
	d.log.Info("answering autoscalers", zap.String("service", service), zap.String("address", s.Addr().String()))
	return d.scalers[len(d.scalers)-1], nil
}
