package daemon

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage/stream"
)

const (
	// snapshotPauseFactor is the pause after a snapshot as a multiple of its duration, so that snapshots use the disk
	// and a core for at most 5 % of the time.
	snapshotPauseFactor = 19
	// progressPause is the least time between two snapshots while the daemon is behind and has run for longer, and
	// retryPause the time after a failed one.
	progressPause = time.Second
	retryPause    = 10 * time.Second
	// tickMaxWait is how long a due snapshot waits for a tick.
	tickMaxWait = time.Minute
	// saveTimeout bounds the writing of a snapshot, and logTimeout the wait for the decisions that it includes.
	saveTimeout = 2 * time.Minute
	logTimeout  = 30 * time.Second
)

// saver is the state of saving snapshots, one at a time.
type saver struct {
	running      bool
	sequence     uint64    // of the newest snapshot of this daemon
	err          error     // of the last attempt
	next         time.Time // when a snapshot is due
	nextProgress time.Time // the same while the daemon is behind
}

// keepState saves the state when it is due. While the daemon is behind, it also saves after progress, so that a process
// that restarts often advances. The pipeline stops while the state is written to a file, so this begins right after a
// tick. The log buffers new messages meanwhile. The upload to the bucket runs beside the pipeline, one file at a time,
// so the newest snapshot is the most advanced one.
func (d *Daemon) keepState(ticked bool) {
	s, now := locked(d, &d.saver), time.Now()
	if s.running {
		return
	}
	late := now.Sub(s.next)
	behind, _ := d.consumer.Pending()
	if late >= 0 && (ticked || s.err != nil || late > tickMaxWait) || behind > 0 && now.After(s.nextProgress) {
		d.startSaving()
	}
}

// startSaving writes the state to a file and stores it. It skips a state that is stored already.
func (d *Daemon) startSaving() {
	began, sequence, saved := time.Now(), d.pipeline.Sequence(), locked(d, &d.saver.sequence)
	if sequence == saved {
		d.endSaving(began, saved, 0, nil)
		return
	}
	_, span := d.tracer.Start(context.Background(), "snapshot", trace.WithAttributes(attribute.Int64("forewarm.sequence", int64(sequence))))
	file, err := d.writeState()
	stopped := time.Since(began)
	d.snapshotStopped(stopped.Seconds())
	if err != nil {
		endSpan(span, err)
		d.endSaving(time.Now(), saved, stopped, err)
		return
	}
	decided := d.decisions.Added()
	d.mu.Lock()
	d.saver.running = true
	d.mu.Unlock()
	d.savers.Go(func() {
		stored, uploading, err := d.storeState(file, sequence, decided)
		if stored {
			saved = sequence
		}
		err = errors.Join(err, file.Close(), os.Remove(file.Name()))
		endSpan(span, err)
		d.endSaving(time.Now(), saved, stopped+uploading, err)
	})
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

// endSaving notes the result of an attempt, and sets when the next snapshot is due. busy is the time that the attempt
// took without waiting for other parts. A failure stops no decision, because the state is still in memory and in the
// stream.
func (d *Daemon) endSaving(ended time.Time, saved uint64, busy time.Duration, err error) {
	d.noteWrite("snapshot", err)
	rest, every := snapshotPauseFactor*busy, d.cfg.Storage.SnapshotEvery
	if err != nil {
		every = min(every, retryPause)
	}
	// At first the pause is only as long as the daemon has run, so that one that is killed soon keeps about half of
	// what it read.
	progress := min(max(progressPause, rest), ended.Sub(d.restoredAt))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saver = saver{sequence: saved, err: err, next: ended.Add(max(every, rest)), nextProgress: ended.Add(progress)}
}

// saveLast saves the last state after the pipeline has ended.
func (d *Daemon) saveLast() error {
	d.savers.Wait()
	d.startSaving()
	d.savers.Wait()
	return locked(d, &d.saver.err)
}

// storeState stores a state after the log has its decisions. It runs on its own goroutine. took is the time of the
// upload.
func (d *Daemon) storeState(state io.Reader, sequence uint64, decided uint64) (stored bool, took time.Duration, err error) {
	if !d.conn.IsConnected() {
		return false, 0, nats.ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	began := time.Now()
	defer func() { d.snapshotTook(time.Since(began).Seconds()) }()
	waiting, done := context.WithTimeout(ctx, logTimeout)
	defer done()
	switch err := d.decisions.Await(waiting, decided); {
	case errors.Is(err, context.DeadlineExceeded):
		return false, 0, nil // the log is behind, as in a fast replay: the next state is enough
	case err != nil:
		return false, 0, err
	}
	now := d.stream.Load()
	uploading := time.Now()
	x, err := d.states.Save(ctx, stream.State{Stream: now.Config.Name, Created: now.Created, Sequence: sequence, Version: d.version}, state)
	if x.Name == "" {
		return false, 0, err
	}
	d.show(&x)
	if all, err := d.states.List(ctx); err == nil {
		d.showPeers(all)
	}
	return true, time.Since(uploading), err
}

// show publishes which state is saved.
func (d *Daemon) show(x *stream.State) {
	d.setStatus(func(s *server.Status) { s.StateDigest, d.savedBytes = x.Digest, x.Bytes })
}

// peerShownFor is how long another daemon is listed after it saved a state.
const peerShownFor = time.Hour

// showPeers publishes which other daemons save states to the log, with version and time.
func (d *Daemon) showPeers(all []stream.State) {
	newest := map[string]stream.State{}
	for _, x := range all {
		if name := x.Instance(); name != d.instance && time.Since(x.At) < peerShownFor && x.At.After(newest[name].At) {
			newest[name] = x
		}
	}
	var peers []string
	for name, x := range newest {
		peers = append(peers, fmt.Sprintf("%s (version %s, saved its state at %s)", value.Printable(name), value.Printable(x.Version), x.At.UTC().Format(time.RFC3339)))
	}
	slices.Sort(peers)
	d.setStatus(func(s *server.Status) {
		s.Peers = cmp.Or(strings.Join(peers, ", "), "no other daemon has saved a state to this log")
	})
}
