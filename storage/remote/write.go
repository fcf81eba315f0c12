package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/common/model"

	"github.com/forewarm/forewarm/storage"
)

// WriteConfig says to whom everything that is stored is sent as well, by Prometheus' remote-write protocol.
type WriteConfig struct {
	Endpoint `yaml:",inline"`
	// Protocol is 1, which all take (VictoriaMetrics only this), or 2, which is a third of the bytes; a receiver that does
	// not know 2 is sent 1.
	Protocol int `yaml:"protocol"`
	// Labels are added to every series that does not have them.
	Labels map[string]string `yaml:"labels"`
	// MaxBytes bounds what waits on disk while the receiver is away; the oldest goes first, and is counted.
	MaxBytes          int64         `yaml:"max_bytes"`
	SamplesPerRequest int           `yaml:"samples_per_request"`
	Timeout           time.Duration `yaml:"timeout"` // of one request
}

// DefaultWrite sends nothing.
func DefaultWrite() WriteConfig {
	return WriteConfig{Protocol: 1, MaxBytes: 256 << 20, SamplesPerRequest: 2000, Timeout: 30 * time.Second}
}

// Check is nil for a usable configuration; else it names the key, its value and the mend.
func (c *WriteConfig) Check() error {
	switch {
	case c.Protocol != 1 && c.Protocol != 2:
		return fmt.Errorf("protocol is %d: it must be 1 or 2", c.Protocol)
	case c.MaxBytes < 1<<20 || c.MaxBytes > 64<<30:
		return fmt.Errorf("max_bytes is %d: it must be 1048576 (1 MiB) to 68719476736 (64 GiB)", c.MaxBytes)
	case c.SamplesPerRequest < 1 || c.SamplesPerRequest > 10_000:
		return fmt.Errorf("samples_per_request is %d: it must be 1 to 10000", c.SamplesPerRequest)
	case c.Timeout < time.Second || c.Timeout > 10*time.Minute:
		return fmt.Errorf("timeout is %s: it must be 1s to 10m", c.Timeout)
	}
	for name := range c.Labels {
		if !model.LegacyValidation.IsValidLabelName(name) || name == model.MetricNameLabel {
			return fmt.Errorf("labels is with %q: it must have names of labels", name)
		}
	}
	return c.check()
}

// Queue keeps what waits to be sent, through outages and restarts; storage.Queue is one. Next gives the oldest again until
// Done.
type Queue interface {
	Append(count uint32, data []byte) error
	Next(ctx context.Context) (count uint32, data []byte, err error)
	Done()
}

// WriteStats count samples since the writer was made; Retries are attempts.
type WriteStats struct {
	Sent     uint64
	Rejected uint64 // refused by the receiver for what they are
	Lost     uint64 // that could not be queued, or read back
	Retries  uint64
}

// How long to wait before the next attempt: from firstPause, twice as long each time, up to lastPause.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// Writer sends samples, through a queue on disk, to a receiver of remote write. Prometheus' own queue is not of use here:
// it begins at the present when it is started, so that what waits is lost with a restart.
//
// The receiver gets everything at least once, in order. What it refuses as unsound (400, 413, 422 …) is counted and left
// out; anything else (it is away, busy, or does not know us) is tried again until it works or the queue is full.
type Writer struct {
	cfg     WriteConfig
	queue   Queue
	log     *slog.Logger
	trouble func(error)
	api     *remoteapi.API
	status  int // of the newest answer; of the goroutine of Run
	encoder encoder
	pauses  remoteapi.BackoffConfig

	protocol                      int // of the goroutine of Run
	sent, rejected, lost, retries atomic.Uint64
}

// NewWriter reads the certificates of cfg and connects to nothing. trouble is told of each failure, and with nil that all is
// well again; on the goroutines of Run and Take.
func NewWriter(cfg WriteConfig, queue Queue, log *slog.Logger, trouble func(error)) (*Writer, error) {
	w := &Writer{
		cfg: cfg, queue: queue, log: log, trouble: trouble, protocol: cfg.Protocol, encoder: newEncoder(cfg.Labels),
		pauses: remoteapi.BackoffConfig{Min: firstPause, Max: lastPause},
	}
	return w, w.connect()
}

func (w *Writer) connect() error {
	transport, err := w.cfg.transport("remote_write")
	if err != nil {
		return err
	}
	client := &http.Client{Transport: watched{bounded{transport}, &w.status}, Timeout: w.cfg.Timeout, CheckRedirect: stay}
	w.api, err = remoteapi.NewAPI(w.cfg.URL, remoteapi.WithAPIPath(""), remoteapi.WithAPIHTTPClient(client), remoteapi.WithAPIBackoff(w.pauses))
	return err
}

// stay follows no redirect: that is to a login page, or elsewhere.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// watched notes the status of the newest answer, 0 when there was none.
type watched struct {
	http.RoundTripper
	status *int
}

func (t watched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if *t.status = 0; err == nil {
		*t.status = resp.StatusCode
	}
	return resp, err
}

// Take queues samples to be sent. It is for one goroutine, beside that of Run.
func (w *Writer) Take(samples []storage.Sample) {
	for part := range slices.Chunk(samples, w.cfg.SamplesPerRequest) {
		data, err := w.encoder.encode(part)
		if err == nil {
			err = w.queue.Append(uint32(len(part)), data)
		}
		if err != nil {
			if w.lost.Add(uint64(len(part))) == uint64(len(part)) { // the first says it, the counter says how many
				w.log.Error("samples for the remote cannot be queued, and are lost to it", "samples", len(part), "cause", err.Error())
			}
			w.trouble(err)
		}
	}
}

// Run sends what is queued until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	for {
		count, data, err := w.queue.Next(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
		if !w.deliver(ctx, uint64(count), data) {
			return nil
		}
		w.queue.Done()
	}
}

// deliver sends a payload until it is dealt with; false when ctx ended before.
func (w *Writer) deliver(ctx context.Context, count uint64, data []byte) bool {
	for pause := w.pauses.Min; ; pause = min(2*pause, w.pauses.Max) {
		err := w.send(ctx, data)
		switch {
		case err == nil:
			w.sent.Add(count)
			w.trouble(nil)
			return true
		case ctx.Err() != nil:
			return false
		case errors.Is(err, errUnreadable):
			w.lost.Add(count)
			w.log.Error("queued samples cannot be read, and are lost to the remote", "samples", count, "cause", err.Error())
			return true
		case w.protocol == 2 && (w.status == http.StatusUnsupportedMediaType || w.status/100 == 2):
			w.protocol = 1
			w.log.Warn("the receiver does not take remote write 2.0; it is sent 1.0", "cause", err.Error())
			continue
		case slices.Contains(unsound, w.status):
			if w.rejected.Add(count) == count {
				w.log.Error("the receiver refuses samples; they are left out, and counted", "samples", count, "cause", err.Error())
			}
			return true
		}
		w.say(err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// unsound are the answers that say that the samples are at fault; they would be the same again.
var unsound = []int{
	http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
}

// send makes one delivery, with retries while the receiver is away or busy.
func (w *Writer) send(ctx context.Context, data []byte) error {
	raw, err := unpack(data)
	if err != nil {
		return err
	}
	kind, message := remoteapi.WriteV1MessageType, any(raw)
	if w.protocol == 2 {
		kind = remoteapi.WriteV2MessageType
		if message, err = raw.version2(); err != nil {
			return err
		}
	}
	_, err = w.api.Write(ctx, kind, message, remoteapi.WithWriteRetryCallback(w.say))
	return err
}

// say tells of an attempt that failed and is made again.
func (w *Writer) say(err error) {
	w.retries.Add(1)
	w.trouble(fmt.Errorf("remote write to %s: %w", redacted(w.cfg.URL), err))
}

// Stats are safe to ask for at any time.
func (w *Writer) Stats() WriteStats {
	return WriteStats{Sent: w.sent.Load(), Rejected: w.rejected.Load(), Lost: w.lost.Load(), Retries: w.retries.Load()}
}
