package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/server"
)

// Serve runs a daemon until ctx ends. It reloads the configuration on each value of hangups and on POST /-/reload. It
// returns a [ConfigError], or the error of load, if the daemon cannot start. It keeps the old configuration if the new
// one is invalid, or if no daemon starts with it.
func Serve(ctx context.Context, load func() (*config.Config, error), hangups <-chan os.Signal, version string) error {
	r := &reloader{load: load, version: version, hangups: hangups, posted: make(chan *config.Config)}
	cfg, err := r.load()
	if err != nil {
		return err
	}
	var before *config.Config // the previous configuration
	for {
		d, err := r.open(ctx, cfg)
		switch {
		case err != nil && before == nil:
			return err
		case err != nil && ctx.Err() != nil:
			return nil // stopped between two daemons
		case err != nil:
			r.refuse(err)
			cfg, before = before, nil
			continue
		}
		next, err := r.serve(ctx, d)
		if next == nil {
			return err
		}
		cfg, before = next, cfg
	}
}

// reloader runs a daemon, and replaces it when the configuration is reloaded. The old one saves its state, and the new
// one restores it, as after a restart of the process. The stream has the messages in between.
type reloader struct {
	load    func() (*config.Config, error) // reads and checks the configuration
	version string
	hangups <-chan os.Signal
	posted  chan *config.Config // valid configurations, by /-/reload

	log atomic.Pointer[zap.Logger] // of the configuration in use

	refused  atomic.Pointer[string] // when and why the last reload was refused; nil if it was not
	loadedAt atomic.Int64           // the configuration in use; milliseconds since 1970
	alerts   alerting.AlertTracker  // about the daemon itself: the end of one is sent also after a reload
}

// open creates a daemon.
func (r *reloader) open(ctx context.Context, cfg *config.Config) (*Daemon, error) {
	log, err := NewLogger(cfg.Log)
	if err != nil {
		return nil, err
	}
	d, err := New(ctx, cfg, Options{Version: r.version, Log: log, alerts: &r.alerts})
	if err != nil {
		return nil, err
	}
	r.log.Store(log)
	d.reloadRefused = &r.refused
	if r.refused.Load() == nil {
		r.loadedAt.Store(time.Now().UnixMilli())
	}
	d.server.Handle("POST /-/reload", r.handler(cfg.Server.Lifecycle))
	d.flag("forewarm_config_last_reload_successful", "1 when the last reload of the configuration was successful, or there was none; else 0.", func() bool {
		return r.refused.Load() == nil
	})
	d.exporter.Gauge("forewarm_config_last_reload_success_timestamp_seconds", "Unix time when the configuration in use was loaded.", func() float64 {
		return float64(r.loadedAt.Load()) / 1e3
	})
	log.Info("serving", zap.Int("pools", len(cfg.Pools)), zap.String("nats", d.Status().Connection), zap.String("http", d.listener.Addr().String()),
		zap.String("stream", d.stream.Load().Config.Name), zap.String("clock", string(cfg.Clock)), zap.String("mode", string(cfg.Decision.Mode)))
	d.logAddresses()
	return d, nil
}

// serve runs a daemon until ctx ends, or until there is a new configuration, which it returns.
func (r *reloader) serve(ctx context.Context, d *Daemon) (next *config.Config, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for next == nil {
		select {
		case err := <-ended:
			if err = errors.Join(err, d.Close()); err == nil {
				r.log.Load().Info("stopped")
			}
			return nil, err
		case next = <-r.posted:
		case <-r.hangups:
			next, _ = r.reload() // an error is logged
		}
	}
	r.refused.Store(nil)
	r.log.Load().Info("the configuration is valid: the daemon restarts with it")
	stop()
	if err := errors.Join(<-ended, d.Close()); err != nil {
		r.log.Load().Warn("the daemon did not stop cleanly before the restart", zap.Error(err)) // the stream has what the state lacks
	}
	return next, nil
}

// reload reads the configuration, and logs that an invalid one is not used.
func (r *reloader) reload() (*config.Config, error) {
	cfg, err := r.load()
	if err != nil {
		r.refuse(err)
		return nil, err
	}
	return cfg, nil
}

// refuse logs and shows that a configuration is not used.
func (r *reloader) refuse(err error) {
	r.refused.Store(new(fmt.Sprintf("not reloaded at %s, the one before stays in use: %s", time.Now().UTC().Format(time.RFC3339), oneLine(err))))
	r.log.Load().Error("the configuration is not reloaded, the one before stays in use: " + oneLine(err))
}

// handler reloads the configuration, and answers before the daemon restarts.
func (r *reloader) handler(enabled bool) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if !enabled {
			server.WriteProblem(w, server.Problemf(http.StatusForbidden, "reloads over HTTP are off: set server.lifecycle to true, or send SIGHUP"))
			return
		}
		cfg, err := r.reload()
		if err != nil {
			server.WriteProblem(w, server.Problemf(http.StatusInternalServerError, "the configuration is not reloaded: %s", oneLine(err)))
			return
		}
		select {
		case r.posted <- cfg:
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "the configuration is valid: the daemon restarts with it\n")
		case <-req.Context().Done():
		}
	}
}

// logAddresses logs the addresses for producers.
func (d *Daemon) logAddresses() {
	if d.embedded == nil {
		return
	}
	from, addresses := "this machine only", []string{strings.TrimPrefix(d.embedded.URL(), "nats://")}
	if address := d.intake.Addr(); address != "" {
		addresses = append(addresses, address)
	}
	if slices.ContainsFunc(addresses, httpguard.IsOpen) {
		from = "the network"
	}
	d.log.Info("producers publish to the embedded server", zap.String("url", d.embedded.URL()), zap.String("reached from", from))
}

// NewLogger creates a logger to stderr.
func NewLogger(c config.Log) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, ConfigError{fmt.Errorf("log.level is %q: it must be debug, info, warn or error", c.Level)}
	}
	zc := zap.NewProductionEncoderConfig()
	zc.EncodeTime, zc.EncodeDuration = zapcore.RFC3339TimeEncoder, zapcore.StringDurationEncoder
	encoder := zapcore.NewConsoleEncoder(zc)
	if c.Format == "json" {
		encoder = zapcore.NewJSONEncoder(zc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), level)), nil
}

func oneLine(err error) string { return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") }
