package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/internal/value"
)

// failedWrite is the error of the last attempt to write.
type failedWrite struct {
	since time.Time
	err   string
}

// troubleRemote is remote write. It does not depend on the local disk.
const troubleRemote = "remote write"

// noteWrite records whether the last write of a part succeeded.
func (d *Daemon) noteWrite(what string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u, failing := d.failedWrites[what]
	if err == nil {
		if failing {
			d.log.Info("is written again", zap.String("what", what), zap.Time("was not since", u.since))
		}
		delete(d.failedWrites, what)
		return
	}
	if !failing {
		u.since = time.Now()
		d.log.Warn("cannot be written", zap.String("what", what), zap.Error(err))
	}
	u.err = value.Printable(err.Error())
	d.failedWrites[what] = u
}

// writeTrouble lists the parts that failed at their last write, except one, and when the first failure began; "" if
// none. The caller holds mu.
func (d *Daemon) writeTrouble(except string) (trouble string, since time.Time) {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(d.failedWrites)) {
		u := d.failedWrites[what]
		if what == except {
			continue
		}
		out = append(out, what+": "+u.err)
		if since.IsZero() || u.since.Before(since) {
			since = u.since
		}
	}
	return strings.Join(out, "; "), since
}

// undelivered logs that a sink fails or has recovered.
func (d *Daemon) undelivered(f sink.Failure) {
	log := d.log.With(zap.String("sink", f.Sink), zap.Int("failures in a row", f.Failures))
	switch {
	case f.Err == nil:
		log.Info("a sink accepts notices again")
	case f.Disabled:
		log.Error("a sink refuses all notices and gets none until a restart: "+
			"remove it from the configuration, or fix the consumer and restart", zap.Error(f.Err))
	case f.Final:
		log.Warn("a notice was refused and is not retried", zap.String("notice", f.Notice.ID()), zap.Error(f.Err))
	default:
		log.Warn("deliveries to a sink fail; they are retried, and logged again in some minutes",
			zap.String("notice", f.Notice.ID()), zap.Error(f.Err))
	}
}

// sinkTrouble lists the sinks that delivered nothing since their last failure, "" if none.
func (d *Daemon) sinkTrouble() string {
	var out []string
	for _, s := range d.dispatcher.Stats() {
		if s.Err != "" {
			out = append(out, fmt.Sprintf("%s: %s (%d wait)", s.Sink, s.Err, s.Queued))
		}
	}
	return strings.Join(out, "; ")
}
