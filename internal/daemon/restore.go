package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage/stream"
)

// instanceOf names a daemon by its host and data directory, which one process locks.
func instanceOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%08x", host, crc32.ChecksumIEEE([]byte(dir)))
}

// restore loads the newest usable snapshot. The stream has the later messages. Without a snapshot the state is learned
// from the log.
func (d *Daemon) restore(ctx context.Context) (err error) {
	began := time.Now()
	newest, err := d.reader.Newest(ctx)
	if err != nil {
		return fmt.Errorf("stream %s: %w", d.cfg.NATS.Decisions(), err)
	}
	for i := range newest {
		if at := newest[i].Decision.Tick; at.After(d.loggedTick) {
			d.loggedTick = at
		}
	}
	snapshot, err := d.load(ctx)
	if err != nil {
		return err
	}
	what, since := "no snapshot: empty state", d.pipeline.LastTick()
	if snapshot != nil {
		what = fmt.Sprintf("snapshot at sequence %d", snapshot.Sequence)
		d.saver.sequence = d.pipeline.Sequence()
		d.savedBytes = float64(snapshot.Bytes)
	}
	d.omissions = d.pipeline.Omissions()
	d.log.Info("state restored", zap.String("from", what), zap.Uint64("sequence", d.pipeline.Sequence()))
	d.setStatus(func(s *server.Status) {
		s.Began = time.Now()
		s.Version, s.Mode, s.Clock = d.version, d.cfg.Decision.Mode, d.cfg.Clock
		s.Restored, s.Restore = true, what
		d.newestTick = slices.MaxFunc([]time.Time{d.pipeline.LastTick(), d.loggedTick}, time.Time.Compare)
		s.Sequence = d.pipeline.Sequence()
	})
	if snapshot == nil && len(newest) > 0 && (d.snapshotsRefused > 0 || d.stream.Load().State.FirstSeq > 1) {
		since = d.loggedTick
		if err := d.resume(ctx, newest); err != nil {
			return err
		}
	}
	d.decisions = stream.NewLog(d.js, stream.Config{
		Stream: d.cfg.NATS.Decisions(), Prefix: d.cfg.NATS.Prefix, Instance: d.instance, Version: d.version,
		Diverged: d.diverged, Trouble: func(err error) { d.note(d.failedWrites, "log", err) },
	}, since, d.loggedTick, slogFrom(d.log))
	d.store.Restore(d.pipeline.LastTick(), d.pipeline.Unsettled())
	d.restoredAt = time.Now()
	d.saver.next = d.restoredAt.Add(d.restoredAt.Sub(began))
	return nil
}

// load restores the newest snapshot that this version can use, nil if there is none. It logs, counts and keeps the
// others.
func (d *Daemon) load(ctx context.Context) (*stream.State, error) {
	d.pipeline = pipeline.New(d.pipelineConfig)
	all, err := d.states.List(ctx)
	if err != nil {
		return nil, err
	}
	// Read the stream now: a twin may have saved a newer state since this daemon connected.
	telemetry, err := d.js.Stream(ctx, d.stream.Load().Config.Name)
	if err != nil {
		return nil, err
	}
	d.stream.Store(telemetry.CachedInfo())
	now := d.stream.Load()
	for i := range all {
		x, remade := &all[i], !all[i].Created.Equal(now.Created)
		switch {
		case x.Stream != now.Config.Name:
			err = fmt.Errorf("it is of stream %q, not of %q", x.Stream, now.Config.Name)
		case x.Sequence > now.State.LastSeq && !remade:
			err = fmt.Errorf("it is ahead of stream %s, which ends at %d: the stream has lost its end", x.Stream, now.State.LastSeq)
		default:
			err = d.take(ctx, x)
		}
		if errors.Is(err, pipeline.ErrOtherClock) {
			return nil, ConfigError{err}
		}
		if err != nil {
			d.snapshotsRefused++
			d.log.Error("a snapshot cannot be restored; without another the state is learned from the log", zap.String("snapshot", x.Name),
				zap.Uint64("sequence", x.Sequence), zap.String("of version", x.Version), zap.Error(err))
			continue
		}
		if remade {
			d.pipeline.ResetSequence()
			d.log.Error("the telemetry stream was deleted and created again: the state continues, and later messages of the old stream are lost",
				zap.String("stream", x.Stream), zap.Time("made", now.Created))
		}
		return x, nil
	}
	return nil, nil
}

// readTimeout bounds reading a snapshot, because missing chunks block it.
const readTimeout = 30 * time.Second

func (d *Daemon) take(ctx context.Context, x *stream.State) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := d.states.Open(ctx, *x)
	if err != nil {
		return err
	}
	p, err := pipeline.Restore(d.pipelineConfig, bufio.NewReaderSize(r, 256<<10))
	err = errors.Join(err, r.Close())
	if version, ok := errors.AsType[*forecaster.VersionError](err); ok {
		return fmt.Errorf("%w; a program of the other version can read it", version)
	}
	if err == nil {
		d.pipeline = p
	}
	return err
}

// resume prepares a daemon that has decisions in the log but no snapshot. The pools continue from the state that is
// stored with their newest decisions.
func (d *Daemon) resume(ctx context.Context, newest []stream.Record) error {
	d.resumed = true
	for i := range newest {
		if err := d.pipeline.Resume(newest[i].Decision.Pool, newest[i].State, d.loggedTick); err != nil {
			d.log.Error("the state stored with a pool's newest decision cannot be read: the pool starts without state", zap.Error(err))
		}
	}
	firing, err := d.reader.Alerts(ctx, "")
	if err != nil {
		return err
	}
	// Each tick stores all firing alerts again: one that is older than the newest tick has ended.
	firing = slices.DeleteFunc(firing, func(a alerting.Alert) bool { return a.Resolved || a.UpdatedAt.Before(d.loggedTick) })
	d.pipeline.ResumeAlerts(firing)
	d.log.Warn("decisions continue at the end of the log", zap.Time("at", d.loggedTick), zap.Int("pools", len(newest)),
		zap.Int("alerts", len(firing)), zap.Uint64("sequence", d.stream.Load().State.FirstSeq))
	d.noteRelearning("learning again, the newest decisions are taken up", false)
	return nil
}

// diverged logs a decision that differs from the stored one, of another daemon or of this one before a restart.
func (d *Daemon) diverged(x stream.Divergence) {
	d.log.Error("a decision differs from the one in the log, which is kept", zap.String("pool", x.Pool), zap.Time("tick", x.Tick),
		zap.String("ours", x.Ours), zap.String("version", d.version),
		zap.String("in the log", x.Theirs), zap.String("by", x.From), zap.String("of version", x.Version))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.divergence = fmt.Sprintf("%s at %s, %s decided %s with version %s, and the log has %s",
		x.Pool, x.Tick.UTC().Format(time.RFC3339), d.instance, x.Ours, d.version, x.Theirs)
	if x.From != "" {
		d.divergence += fmt.Sprintf(" by %s with version %s", x.From, x.Version)
	}
}
