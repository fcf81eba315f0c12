package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/value"
)

// Serve runs a daemon until ctx ends. It reloads the configuration on each value of hangups. It returns a [ConfigError],
// or the error of load, if the daemon cannot start. It keeps the old configuration if the new one is invalid, or if no
// daemon starts with it.
func Serve(ctx context.Context, load func() (*config.Config, error), hangups <-chan os.Signal, version string) error {
	r := &reloader{load: load, version: version, hangups: hangups}
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

	log *zap.Logger // of the configuration in use

	refused  atomic.Pointer[string] // when and why the last reload was refused; nil if it was not
	loadedAt atomic.Int64           // the configuration in use; milliseconds since 1970
	alerts   alerting.AlertTracker  // about the daemon itself: the end of one is sent also after a reload
}

func (r *reloader) open(ctx context.Context, cfg *config.Config) (*Daemon, error) {
	log := NewLogger(cfg.Log)
	d, err := New(ctx, cfg, Options{Version: r.version, Log: log, alerts: &r.alerts})
	if err != nil {
		return nil, err
	}
	r.log = log
	d.reloadRefused = &r.refused
	if r.refused.Load() == nil {
		r.loadedAt.Store(time.Now().UnixMilli())
	}
	d.exporter.Flag("forewarm_config_last_reload_successful", "1 when the last reload of the configuration was successful, or there was none; else 0.", func() bool {
		return r.refused.Load() == nil
	})
	d.exporter.Gauge("forewarm_config_last_reload_success_timestamp_seconds", "Unix time when the configuration in use was loaded.", func() float64 {
		return float64(r.loadedAt.Load()) / 1e3
	})
	log.Info("serving", zap.Int("pools", len(cfg.Pools)), zap.String("nats", value.Redacted(d.NATSURL())),
		zap.String("http", d.HTTPAddress()), zap.String("stream", d.stream.Load().Config.Name), zap.String("clock", string(cfg.Clock)), zap.String("mode", string(cfg.Decision.Mode)))
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
				r.log.Info("stopped")
			}
			return nil, err
		case <-r.hangups:
			next, err = r.load()
			if err == nil && reflect.DeepEqual(next.NATS, d.cfg.NATS) && d.conn.FlushTimeout(inspectTimeout) != nil {
				err = errors.New("NATS does not answer, and no daemon starts without it: reload again once it does")
			}
			if err != nil {
				r.refuse(err)
				next = nil
			}
		}
	}
	r.refused.Store(nil)
	r.log.Info("the configuration is valid: the daemon restarts with it")
	stop()
	if err := errors.Join(<-ended, d.Close()); err != nil {
		r.log.Warn("the daemon did not stop cleanly before the restart", zap.Error(err)) // the stream has what the state lacks
	}
	return next, nil
}

func (r *reloader) refuse(err error) {
	at, why := time.Now().UTC().Format(time.RFC3339), OneLine(err)
	r.refused.Store(new(fmt.Sprintf("not reloaded at %s, the one before stays in use: %s", at, why)))
	r.log.Error("the configuration is not reloaded, the one before stays in use: " + why)
}

// NewLogger creates a logger to stderr.
func NewLogger(c config.Log) *zap.Logger {
	level, _ := zapcore.ParseLevel(c.Level) // the configuration has one of its names
	zc := zap.NewProductionEncoderConfig()
	zc.EncodeTime, zc.EncodeDuration = zapcore.RFC3339TimeEncoder, zapcore.StringDurationEncoder
	encoder := zapcore.NewConsoleEncoder(zc)
	if c.Format == "json" {
		encoder = zapcore.NewJSONEncoder(zc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), level))
}

// OneLine is the text of an error in one line.
func OneLine(err error) string { return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") }
