package daemon

import (
	"fmt"
	"path/filepath"

	"github.com/forewarm/forewarm/storage/remote"
)

// openRemoteWrite has what is stored sent to a remote as well, where one is configured.
func (d *Daemon) openRemoteWrite() (err error) {
	c := d.cfg.RemoteWrite
	if c.URL == "" {
		return nil
	}
	log := slogFrom(d.log)
	d.writer, err = remote.NewWriter(c, filepath.Join(d.cfg.Storage.Dir, "tsdb"), log, func(err error) { d.stored(troubleRemote, err) })
	if err != nil {
		return ConfigError{fmt.Errorf("remote_write: %w", err)}
	}
	return nil
}

// exportRemoteWrite publishes what became of the samples for the remote.
func (d *Daemon) exportRemoteWrite() {
	if d.writer == nil {
		return
	}
	for _, c := range []struct {
		name, help string
		value      func() uint64
	}{
		{"forewarm_remote_write_sent_total", "Samples that the receiver accepted.", func() uint64 { return d.writer.Stats().Sent }},
		{"forewarm_remote_write_rejected_total", "Samples that the receiver refused as invalid.", func() uint64 { return d.writer.Stats().Rejected }},
		{"forewarm_remote_write_lost_total", "Samples that cannot be sent because the TSDB's log is damaged and does not name their series.", func() uint64 { return d.writer.Stats().Lost }},
		{"forewarm_remote_write_gaps_total", "Times that a part of the TSDB's log was gone or damaged before it was sent.", func() uint64 { return d.writer.Stats().Gaps }},
		{"forewarm_remote_write_retries_total", "Attempts to send that failed and were repeated.", func() uint64 { return d.writer.Stats().Retries }},
	} {
		d.exporter.Counter(c.name, c.help, c.value)
	}
	d.exporter.Gauge("forewarm_remote_write_waiting_bytes", "Bytes of the TSDB's log that are not sent yet.", func() float64 {
		return float64(d.writer.Waiting())
	})
}
