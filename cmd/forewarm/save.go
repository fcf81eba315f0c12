package main

import (
	"context"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage/stream"
)

// saving is a state on its way to the bucket.
type saving struct {
	began    time.Time
	sequence uint64
	done     chan outcome // of one
}

// outcome is what became of a saving: the snapshot, unless none was needed or it could not be written, and what went wrong.
type outcome struct {
	snapshot *stream.State
	err      error
}

// snapshotRest is how many times as long as the last snapshot took the next one waits at least: neither a slow disk nor a
// large state may keep the disk, and a core, busy for more than 5 % of the time.
const snapshotRest = 19

// progressRest is how long the fold goes on at least, while it is behind, before the state is saved again.
const progressRest = time.Second

// tickPatience is how long a snapshot that is due waits for a tick to pass.
const tickPatience = time.Minute

// keepState saves the state when it is time to; while the fold is behind also by its progress, so that it gets on even if the
// process never lives for long. The fold stands still only while the state is fixed; it is encoded, hashed and written while the
// fold goes on. It begins right after a tick, for the next one waits until what the models know is written. Snapshots are written
// one after the other, so that the newest is the one that has come furthest.
func (d *daemon) keepState(ticked bool) {
	if d.saving != nil {
		select {
		case x := <-d.saving.done:
			d.endSaving(x)
		default:
		}
	}
	if d.saving != nil {
		return
	}
	now := time.Now()
	late := now.Sub(d.nextSnapshot)
	behind, _ := d.consumer.Pending()
	if late >= 0 && (ticked || late > tickPatience) || behind > 0 && now.After(d.nextProgress) {
		d.startSaving(false)
	}
}

// startSaving fixes the state and has it written. A state that is saved already is not saved again, and unless it must not be
// left to them neither is one while a twin saves.
func (d *daemon) startSaving(own bool) {
	s := &saving{began: time.Now(), sequence: d.pipeline.Sequence(), done: make(chan outcome, 1)}
	if s.sequence == d.saved {
		d.scheduleSnapshot(s.began)
		return
	}
	frozen, stored := d.pipeline.Freeze(), d.decisions.Barrier()
	d.snapshotStopped(time.Since(s.began).Seconds())
	d.saving = s
	go func() {
		snapshot, err := d.save(frozen, stored, own)
		s.done <- outcome{snapshot, err}
	}()
}

// endSaving takes note of how a saving has ended.
func (d *daemon) endSaving(x outcome) {
	d.pipeline.Thaw()
	d.scheduleSnapshot(d.saving.began)
	if x.snapshot != nil {
		d.saved = d.saving.sequence
	}
	d.saving = nil
	d.stored("snapshot", x.err)
	if x.err != nil {
		// A disk that is full must not stop the decisions: the state lives on in memory and in the stream.
		d.log.Error("the state could not be saved; a restart replays more of the stream", zap.Error(x.err))
	}
}

// awaitSaving waits for the saving under way, if there is one.
func (d *daemon) awaitSaving() error {
	if d.saving == nil {
		return nil
	}
	x := <-d.saving.done
	d.endSaving(x)
	return x.err
}

// saveLast saves what the fold has come to, once it has ended.
func (d *daemon) saveLast() error {
	_ = d.awaitSaving() // the next one makes up for it
	d.startSaving(true)
	return d.awaitSaving()
}

// scheduleSnapshot says when the one after that which began at the given time is due.
func (d *daemon) scheduleSnapshot(began time.Time) {
	now := time.Now()
	rest := snapshotRest * now.Sub(began)
	d.nextSnapshot = now.Add(max(d.cfg.Storage.SnapshotEvery, rest))
	d.nextProgress = now.Add(max(progressRest, rest))
}

// saveTimeout bounds the writing of a snapshot, and logTimeout the wait for the decisions that it includes.
const (
	saveTimeout = 2 * time.Minute
	logTimeout  = 30 * time.Second
)

// save writes a state, which is kept once the log has the decisions that led to it. It runs on a goroutine of its own.
func (d *daemon) save(frozen *pipeline.Frozen, stored <-chan struct{}, own bool) (*stream.State, error) {
	defer frozen.Close()
	if !d.conn.IsConnected() {
		return nil, nats.ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	if !own && d.states.Fresh(ctx, versionString(), d.cfg.Storage.SnapshotEvery) {
		return nil, nil //nolint:nilnil // a twin's will do
	}
	began := time.Now()
	defer func() { d.snapshotTook(time.Since(began).Seconds()) }()
	now := d.stream.Load()
	x := stream.State{Stream: now.Config.Name, Created: now.Created, Sequence: frozen.Sequence(), Version: versionString()}
	saved, err := d.states.Save(ctx, x, func(w io.Writer) error {
		if err := frozen.Encode(w); err != nil {
			return err
		}
		waiting, done := context.WithTimeout(ctx, logTimeout) // last, because the next tick waits until the models are written, and need not for the log
		defer done()
		return d.decisions.Await(waiting, stored)
	})
	d.stored("series fsync", d.store.Sync())
	if saved.Name == "" {
		return nil, err
	}
	d.show(&saved)
	return &saved, err
}

// show makes known which state is saved.
func (d *daemon) show(x *stream.State) {
	d.setStatus(func(s *server.Status) { s.StateDigest, d.savedBytes = x.Digest, x.Bytes })
}
