package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage/stream"
)

// saving is a state that is being written to the bucket.
type saving struct {
	span     trace.Span
	sequence uint64
	busy     time.Duration // without waiting for other parts
	done     chan struct{} // is closed at the end, after the rest is set

	saved bool // false if it was not needed, or failed
	err   error
	ended time.Time
}

// snapshotPauseFactor is the pause after a snapshot as a multiple of its duration, so that snapshots use the disk and a
// core for at most 5 % of the time.
const snapshotPauseFactor = 19

// progressPause is the least time between two snapshots while the daemon is behind and has run for longer, and retryPause
// the time after a failed one.
const (
	progressPause = time.Second
	retryPause    = 10 * time.Second
)

// tickMaxWait is how long a due snapshot waits for a tick.
const tickMaxWait = time.Minute

// keepState saves the state when it is due. While the daemon is behind, it also saves after progress, so that a process
// that restarts often advances. The pipeline stops while the state is written to a file, so this begins right after a
// tick. The log buffers new messages meanwhile. The upload to the bucket runs beside the pipeline, one file at a time,
// so the newest snapshot is the most advanced one.
func (d *Daemon) keepState(ticked bool) {
	if d.saving != nil {
		select {
		case <-d.saving.done:
			_ = d.endSaving() // it is logged
		default:
			return
		}
	}
	now := time.Now()
	late := now.Sub(d.nextSnapshot)
	behind, _ := d.consumer.Pending()
	if late >= 0 && (ticked || d.saveFailed || late > tickMaxWait) || behind > 0 && now.After(d.nextProgress) {
		d.startSaving(false)
	}
}

// startSaving writes the state to a file and stores it. It skips a state that is stored already. Unless own is set, it
// also skips while another daemon's snapshot is fresh.
func (d *Daemon) startSaving(own bool) {
	began, s := time.Now(), &saving{sequence: d.pipeline.Sequence(), done: make(chan struct{})}
	if s.sequence == d.saved {
		d.scheduleSnapshot(began, 0)
		return
	}
	_, s.span = d.tracer.Start(context.Background(), "snapshot", trace.WithAttributes(attribute.Int64("forewarm.sequence", int64(s.sequence))))
	d.saving = s
	end := func(saved bool, err error) {
		d.noteWrite("snapshot", err) // now, because the next message may come late
		s.saved, s.err, s.ended = saved, err, time.Now()
		close(s.done)
	}
	file, err := d.writeState()
	s.busy = time.Since(began)
	d.snapshotStopped(s.busy.Seconds())
	if err != nil {
		end(false, err)
		return
	}
	decided := d.decisions.Barrier()
	go func() {
		saved, err := d.storeState(file, s, decided, own)
		end(saved, errors.Join(err, file.Close(), os.Remove(file.Name())))
	}()
}

// writeState writes the state to a file in the data directory, and seeks to its start.
func (d *Daemon) writeState() (_ *os.File, err error) {
	file, err := os.Create(filepath.Join(d.cfg.Storage.Dir, "state.tmp"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // otherwise a full disk stays full
			err = errors.Join(err, file.Close(), os.Remove(file.Name()))
		}
	}()
	w := bufio.NewWriterSize(file, 1<<20)
	if err := errors.Join(d.pipeline.Encode(w), w.Flush()); err != nil {
		return nil, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return file, err
}

// endSaving records the result of a saving.
func (d *Daemon) endSaving() error {
	s, failing := d.saving, d.saveFailed
	d.saving, d.saveFailed = nil, s.err != nil
	d.scheduleSnapshot(s.ended, s.busy)
	if s.saved {
		d.saved = s.sequence
	}
	endSpan(s.span, s.err)
	if s.err != nil && !failing {
		// A full disk must not stop the decisions. The state is still in memory and in the stream.
		d.log.Error("the state could not be saved; a restart replays more of the stream", zap.Error(s.err))
	}
	return s.err
}

// awaitSaving waits for the current saving, if any.
func (d *Daemon) awaitSaving() error {
	if d.saving == nil {
		return nil
	}
	<-d.saving.done
	return d.endSaving()
}

// saveLast saves the last state after the pipeline has ended.
func (d *Daemon) saveLast() error {
	_ = d.awaitSaving() // the next one replaces it
	d.startSaving(true)
	return d.awaitSaving()
}

// scheduleSnapshot sets when the next snapshot is due, after one that ended at this time and was busy so long.
func (d *Daemon) scheduleSnapshot(ended time.Time, busy time.Duration) {
	rest, every := snapshotPauseFactor*busy, d.cfg.Storage.SnapshotEvery
	if d.saveFailed {
		every = min(every, retryPause)
	}
	d.nextSnapshot = ended.Add(max(every, rest))
	// At first the pause is only as long as the daemon has run, so that one that is killed soon keeps about half of
	// what it read.
	d.nextProgress = ended.Add(min(max(progressPause, rest), ended.Sub(d.restoredAt)))
}

// saveTimeout bounds the writing of a snapshot, and logTimeout the wait for the decisions that it includes.
const (
	saveTimeout = 2 * time.Minute
	logTimeout  = 30 * time.Second
)

// storeState stores a state after the log has its decisions. It runs on its own goroutine.
func (d *Daemon) storeState(state io.Reader, s *saving, decided <-chan struct{}, own bool) (saved bool, err error) {
	if !d.conn.IsConnected() {
		return false, nats.ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	if !own && d.states.Fresh(ctx, d.version, d.cfg.Storage.SnapshotEvery) {
		return false, nil // another daemon's snapshot is enough
	}
	began := time.Now()
	defer func() { d.snapshotTook(time.Since(began).Seconds()) }()
	waiting, done := context.WithTimeout(ctx, logTimeout)
	defer done()
	switch err := d.decisions.Await(waiting, decided); {
	case errors.Is(err, context.DeadlineExceeded):
		return false, nil // the log is behind, as in a fast replay: the next state is enough
	case err != nil:
		return false, err
	}
	now := d.stream.Load()
	x := stream.State{Stream: now.Config.Name, Created: now.Created, Sequence: s.sequence, Version: d.version}
	uploading := time.Now()
	x, err = d.states.Save(ctx, x, state)
	if x.Name == "" {
		return false, err
	}
	s.busy += time.Since(uploading)
	d.show(&x)
	return true, err
}

// show publishes which state is saved.
func (d *Daemon) show(x *stream.State) {
	d.setStatus(func(s *server.Status) { s.StateDigest, d.savedBytes = x.Digest, x.Bytes })
}
