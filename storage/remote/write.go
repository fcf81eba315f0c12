package remote

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/record"

	"github.com/forewarm/forewarm/internal/sleep"
)

// WriteConfig says to whom everything that is stored is sent as well, by Prometheus' remote-write protocol.
type WriteConfig struct {
	Endpoint `yaml:",inline"`
	// Protocol is 1, which all take (VictoriaMetrics only this), or 2, which is a third of the bytes; a receiver that does
	// not know 2 is sent 1.
	Protocol int `yaml:"protocol"`
	// Labels are added to every series that does not have them.
	Labels            map[string]string `yaml:"labels"`
	SamplesPerRequest int               `yaml:"samples_per_request"`
	Timeout           time.Duration     `yaml:"timeout"` // of one request
}

// DefaultWrite sends nothing.
func DefaultWrite() WriteConfig {
	return WriteConfig{Protocol: 1, SamplesPerRequest: 2000, Timeout: 30 * time.Second}
}

// Check is nil for a usable configuration; else it names the key, its value and the mend.
func (c *WriteConfig) Check() error {
	switch {
	case c.Protocol != 1 && c.Protocol != 2:
		return fmt.Errorf("protocol is %d: it must be 1 or 2", c.Protocol)
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

// WriteStats count samples since the writer was made; Retries are attempts, and Gaps what was gone before it was sent.
type WriteStats struct {
	Sent     uint64
	Rejected uint64 // refused by the receiver for what they are
	Lost     uint64 // of series that are not known
	Retries  uint64
	Gaps     uint64
}

// How long to wait before the next attempt: from firstPause, twice as long each time, up to lastPause.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// Writer sends what the TSDB appends to a receiver of remote write: the TSDB's write-ahead log is the queue.
//
// The receiver gets everything at least once, in order, also what settles late and what waited over a restart; but for what
// the TSDB has removed from its log meanwhile, which reaches back two to three hours. What the receiver refuses as unsound
// (400, 413, 422 …) is counted and left out; anything else (it is away, busy, or does not know us) is tried again.
type Writer struct {
	cfg     WriteConfig
	dir     string // of the TSDB
	log     *slog.Logger
	trouble func(error)
	api     *remoteapi.API
	status  int // of the newest answer; of the goroutine of Run
	pauses  remoteapi.BackoffConfig

	follower follower // of the goroutine of Run
	protocol int

	segment, offset                     atomic.Int64
	sent, rejected, lost, retries, gaps atomic.Uint64
}

// NewWriter reads the certificates of cfg and connects to nothing. dir is the TSDB's, which is open. trouble is told of each
// failure, and with nil that all is well again; on the goroutine of Run.
func NewWriter(cfg WriteConfig, dir string, log *slog.Logger, trouble func(error)) (*Writer, error) {
	w := &Writer{cfg: cfg, dir: dir, log: log, trouble: trouble, protocol: cfg.Protocol, pauses: remoteapi.BackoffConfig{Min: firstPause, Max: lastPause}}
	w.follower = follower{
		dir: dir, log: log, take: w.take, labels: w.labels,
		lost: func(why string, err error) {
			w.gaps.Add(1)
			log.Error("samples are lost to the remote: "+why, "cause", fmt.Sprint(err))
		},
		offset: func(segment int, bytes int64) {
			w.segment.Store(int64(segment))
			w.offset.Store(bytes)
		},
	}
	return w, w.connect()
}

// labels adds those of the configuration.
func (w *Writer) labels(ls labels.Labels) labels.Labels {
	b := labels.NewBuilder(ls)
	for name, value := range w.cfg.Labels {
		if ls.Get(name) == "" {
			b.Set(name, value)
		}
	}
	return b.Labels()
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

// Run sends what the TSDB appends until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	w.follower.run(ctx)
	return nil
}

// take sends samples of the log; false when ctx ended before.
func (w *Writer) take(ctx context.Context, all []record.RefSample) bool {
	for part := range slices.Chunk(all, w.cfg.SamplesPerRequest) {
		samples := make([]sample, 0, len(part))
		for _, x := range part {
			if ls, ok := w.follower.series[x.Ref]; ok {
				samples = append(samples, sample{ls, x.T, x.V})
			}
		}
		w.lost.Add(uint64(len(part) - len(samples)))
		if len(samples) > 0 && !w.deliver(ctx, samples) {
			return false
		}
	}
	return true
}

// deliver sends samples until they are dealt with; false when ctx ended before.
func (w *Writer) deliver(ctx context.Context, samples []sample) bool {
	count := uint64(len(samples))
	for wait := w.pauses.Min; ; wait = min(2*wait, w.pauses.Max) {
		err := w.send(ctx, samples)
		switch {
		case err == nil:
			w.sent.Add(count)
			w.trouble(nil)
			return true
		case ctx.Err() != nil:
			return false
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
		if !sleep.For(ctx, wait) {
			return false
		}
	}
}

// unsound are the answers that say that the samples are at fault; they would be the same again.
var unsound = []int{
	http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
}

// send makes one delivery, with retries while the receiver is away or busy.
func (w *Writer) send(ctx context.Context, samples []sample) (err error) {
	if w.protocol == 2 {
		_, err = w.api.Write(ctx, remoteapi.WriteV2MessageType, version2(samples), remoteapi.WithWriteRetryCallback(w.say))
	} else {
		_, err = w.api.Write(ctx, remoteapi.WriteV1MessageType, version1(samples), remoteapi.WithWriteRetryCallback(w.say))
	}
	return err
}

// say tells of an attempt that failed and is made again.
func (w *Writer) say(err error) {
	w.retries.Add(1)
	w.trouble(fmt.Errorf("remote write to %s: %w", redacted(w.cfg.URL), err))
}

// Stats are safe to ask for at any time.
func (w *Writer) Stats() WriteStats {
	return WriteStats{Sent: w.sent.Load(), Rejected: w.rejected.Load(), Lost: w.lost.Load(), Retries: w.retries.Load(), Gaps: w.gaps.Load()}
}

// Waiting is how many bytes of the TSDB's log are not sent yet.
func (w *Writer) Waiting() int64 { return waiting(w.dir, int(w.segment.Load()), w.offset.Load()) }
