package main

import (
	"fmt"
	"path/filepath"

	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/remote"
)

// openRemoteWrite has what is stored sent to a remote as well, where one is configured.
func (d *daemon) openRemoteWrite() (err error) {
	c := d.cfg.RemoteWrite
	if c.URL == "" {
		return nil
	}
	log := slogFrom(d.log)
	if d.queue, err = storage.OpenQueue(filepath.Join(d.cfg.Storage.Dir, "remote"), c.MaxBytes, log); err != nil {
		return err
	}
	d.onClose(d.queue.Close)
	if d.writer, err = remote.NewWriter(c, d.queue, log, func(err error) { d.stored(troubleRemote, err) }); err != nil {
		return usageError{fmt.Errorf("remote_write: %w", err)}
	}
	d.store.Forward(d.writer.Take)
	return nil
}

// exportRemoteWrite publishes what became of the samples for the remote.
func (d *daemon) exportRemoteWrite() {
	if d.writer == nil {
		return
	}
	for _, c := range []struct {
		name, help string
		value      func() uint64
	}{
		{"forewarm_remote_write_sent_total", "Samples that the remote has taken.", func() uint64 { return d.writer.Stats().Sent }},
		{"forewarm_remote_write_rejected_total", "Samples that the remote has refused for what they are.", func() uint64 { return d.writer.Stats().Rejected }},
		{"forewarm_remote_write_dropped_total", "Samples pushed out of a full queue, or that could not be queued or read back.", func() uint64 {
			return d.writer.Stats().Lost + d.queue.Stats().Dropped
		}},
		{"forewarm_remote_write_unsafe_total", "Samples in files whose fsync failed: a loss of power may have taken them.", func() uint64 { return d.queue.Stats().Unsafe }},
		{"forewarm_remote_write_damaged_bytes_total", "Bytes of the queue found damaged at the start: how many samples were in them is not known.", func() uint64 { return uint64(d.queue.Stats().Lost) }},
		{"forewarm_remote_write_retries_total", "Attempts to send that failed and were made again.", func() uint64 { return d.writer.Stats().Retries }},
	} {
		d.exporter.Counter(c.name, c.help, c.value)
	}
	d.exporter.Gauge("forewarm_remote_write_waiting_samples", "Samples that wait for the remote, on disk.", func() float64 {
		return float64(d.queue.Stats().Waiting)
	})
	d.exporter.Gauge("forewarm_remote_write_queue_bytes", "Size of what waits for the remote, on disk.", func() float64 {
		return float64(d.queue.Stats().Bytes)
	})
}
