package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage/stream"
)

const (
	snapshotPauseFactor = 19               // pause over duration, so that snapshots use a core and the disk for at most 5 % of the time
	progressPause       = time.Second      // least pause while the daemon is behind and has run for longer
	retryPause          = 10 * time.Second // after a failed snapshot
	saveTimeout         = 2 * time.Minute  // of writing a snapshot
	logTimeout          = 30 * time.Second // of the wait for the decisions that a snapshot includes
)

// saver saves snapshots, one at a time. Whoever holds busy saves one, and owns the rest.
type saver struct {
	busy     sync.Mutex
	sequence uint64    // of the newest snapshot of this daemon
	err      error     // of the last attempt
	next     time.Time // when a snapshot is due
}

// keepState saves the state when it is due. The pipeline stops while the state is written to a file. The file is uploaded
// beside the pipeline, one at a time, so the newest snapshot is the most advanced one.
func (d *Daemon) keepState() {
	s := &d.saver
	if !s.busy.TryLock() {
		return
	}
	if time.Now().After(s.next) {
		d.startSaving()
	} else {
		s.busy.Unlock()
	}
}

// startSaving writes the state to a file and stores it on a goroutine of its own, which unlocks busy at the end. It skips
// a state that is stored already.
func (d *Daemon) startSaving() {
	began, sequence := time.Now(), d.pipeline.Sequence()
	behind, _ := d.consumer.Pending()
	if sequence == d.saver.sequence {
		d.endSaving(began, 0, behind, nil)
		d.saver.busy.Unlock()
		return
	}
	file, err := d.writeState()
	busy, decided := time.Since(began), d.decisions.Added()
	d.snapshotStopped(busy.Seconds())
	go func() {
		defer d.saver.busy.Unlock()
		if err == nil {
			var uploading time.Duration
			uploading, err = d.storeState(file, sequence, decided)
			busy += uploading
			err = errors.Join(err, file.Close())
		}
		d.endSaving(time.Now(), busy, behind, err)
	}()
}

// writeState writes the state to a file in the data directory, and seeks to its start. The file has no name any more, so
// that its space is free once it is closed.
func (d *Daemon) writeState() (*os.File, error) {
	file, err := os.Create(filepath.Join(d.cfg.Storage.Dir, "state.tmp"))
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(file, 1<<20)
	err = errors.Join(os.Remove(file.Name()), d.pipeline.Encode(w), w.Flush())
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// endSaving notes the result of an attempt, and sets when the next snapshot is due. busy is the time that the attempt
// took without waiting for other parts. While the daemon is behind, the first pause is as long as it has run, so that a
// process that is killed often still advances. A failure stops no decision: memory and the stream have the state.
func (d *Daemon) endSaving(ended time.Time, busy time.Duration, behind uint64, err error) {
	d.note(d.failedWrites, "snapshot", err)
	pause := d.cfg.Storage.SnapshotEvery
	if err != nil {
		pause = min(pause, retryPause)
	}
	pause = max(pause, snapshotPauseFactor*busy)
	if behind > 0 {
		pause = min(max(progressPause, snapshotPauseFactor*busy), ended.Sub(d.restoredAt))
	}
	d.saver.err, d.saver.next = err, ended.Add(pause)
}

// saveLast saves the last state after the pipeline has ended.
func (d *Daemon) saveLast() error {
	d.saver.busy.Lock()
	d.startSaving()
	d.saver.busy.Lock()
	defer d.saver.busy.Unlock()
	return d.saver.err
}

// storeState stores a state after the log has its decisions. took is the time of the upload.
func (d *Daemon) storeState(state io.Reader, sequence uint64, decided uint64) (took time.Duration, err error) {
	if !d.conn.IsConnected() {
		return 0, nats.ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	began := time.Now()
	defer func() { d.snapshotTook(time.Since(began).Seconds()) }()
	waiting, done := context.WithTimeout(ctx, logTimeout)
	defer done()
	if err := d.decisions.Await(waiting, decided); errors.Is(err, context.DeadlineExceeded) {
		return 0, nil // the log is behind, as in a fast replay: the next state is enough
	} else if err != nil {
		return 0, err
	}
	now := d.stream.Load()
	uploading := time.Now()
	of := stream.State{Stream: now.Config.Name, Created: now.Created, Sequence: sequence, Version: d.version}
	x, err := d.states.Save(ctx, of, state)
	if x.Name == "" {
		return 0, err
	}
	d.saver.sequence = sequence
	d.setStatus(func(*server.Status) { d.savedBytes = float64(x.Bytes) })
	return time.Since(uploading), err
}
