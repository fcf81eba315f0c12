package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
)

// saving is a state on its way to the disk.
type saving struct {
	began    time.Time
	sequence uint64
	done     chan outcome // of one
}

// outcome is what became of a saving: the snapshot, unless it could not be written, and what went wrong.
type outcome struct {
	snapshot *storage.Snapshot
	err      error
}

// snapshotRest is how many times as long as the last snapshot took the next one waits at least: neither a slow disk nor a
// large state may keep the disk, and a core, busy for more than 5 % of the time.
const snapshotRest = 19

// tickPatience is how long a snapshot that is due waits for a tick to pass.
const tickPatience = time.Minute

// keepState saves the state when it is time to. The fold stands still only while the state is fixed; it is encoded, hashed
// and written while the fold goes on. It begins right after a tick, for the next one waits until what the models know is
// written. Snapshots are written one after the other, so that the newest is the one that has come furthest.
func (d *daemon) keepState(ticked bool) {
	if d.saving != nil {
		select {
		case x := <-d.saving.done:
			d.endSaving(x)
		default:
		}
	}
	if late := time.Since(d.nextSnapshot); d.saving == nil && late >= 0 && (ticked || late > tickPatience) {
		d.startSaving()
	}
}

// startSaving fixes the state and has it written. A state that is saved already is not saved again.
func (d *daemon) startSaving() {
	s := &saving{began: time.Now(), sequence: d.pipeline.Sequence(), done: make(chan outcome, 1)}
	if s.sequence == d.saved {
		d.scheduleSnapshot(s.began)
		return
	}
	frozen, tick := d.pipeline.Freeze(), d.pipeline.LastTick()
	d.snapshotStopped(time.Since(s.began).Seconds())
	d.saving = s
	go func() {
		snapshot, err := d.save(frozen, tick)
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
	d.startSaving()
	return d.awaitSaving()
}

// scheduleSnapshot says when the one after that which began at the given time is due.
func (d *daemon) scheduleSnapshot(began time.Time) {
	now := time.Now()
	d.nextSnapshot = now.Add(max(d.cfg.Storage.SnapshotEvery, snapshotRest*now.Sub(began)))
}

// save writes a state as it was at a tick; what led to it is safe before it takes the place of the one before. It runs on a
// goroutine of its own.
func (d *daemon) save(frozen *forewarm.Frozen, tick time.Time) (*storage.Snapshot, error) {
	defer frozen.Close()
	began := time.Now()
	defer func() { d.snapshotTook(time.Since(began).Seconds()) }()
	snapshot, err := d.snapshots.Save(d.identity(), frozen.Sequence(), func(w io.Writer) error {
		if err := frozen.Encode(w); err != nil {
			return err
		}
		return d.secure() // last, because the next tick waits until the models are written, and need not for the disk
	})
	if snapshot != nil {
		d.show(snapshot)
	}
	if err == nil {
		err = d.journal.Prune(tick.Add(-d.cfg.Storage.Retention))
	}
	return snapshot, err
}

// secure makes what led to a state survive a loss of power. The state must not be kept where that fails for decisions or
// notices; where it does for the history that is only said.
func (d *daemon) secure() error {
	d.stored("series fsync", d.store.Sync())
	journal, outbox := d.journal.Sync(), d.outbox.Sync()
	d.stored("journal", journal)
	d.stored("outbox", outbox)
	return errors.Join(journal, outbox)
}

// show makes known which state is saved.
func (d *daemon) show(snapshot *storage.Snapshot) {
	d.setStatus(func(s *server.Status) {
		s.StateDigest, d.savedBytes = hex.EncodeToString(snapshot.Digest[:]), snapshot.Bytes
	})
}

// load restores the newest snapshot under a configuration. It returns nil where there is none that this program can read.
func (d *daemon) load(cfg forewarm.Config) (*storage.Snapshot, error) {
	snapshot, err := d.snapshots.Load(d.stream)
	mend := ""
	if err == nil {
		err = d.take(cfg, snapshot)
		mend = fmt.Sprintf(": run the forewarm that wrote it, or move %s away to learn anew from the stream and the stored series", filepath.Join(d.cfg.Storage.Dir, "snapshots"))
	}
	if errors.Is(err, storage.ErrNoSnapshot) {
		d.pipeline = forewarm.New(cfg)
		return nil, nil
	}
	if why := outdated(err); err != nil && why != "" {
		d.pipeline = forewarm.New(cfg)
		return nil, d.putAside(err, why)
	}
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, mend)
	}
	return snapshot, nil
}

// take makes the pipeline of a snapshot.
func (d *daemon) take(cfg forewarm.Config, snapshot *storage.Snapshot) (err error) {
	r, err := snapshot.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	d.pipeline, err = forewarm.Restore(cfg, r)
	return err
}
