package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/record"

	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/sleep"
)

// WriteConfig configures the receiver of all stored series, by Prometheus remote write 1.0.
type WriteConfig struct {
	Endpoint `yaml:",inline"`
	// Labels are added to every series that does not have them.
	Labels map[string]string `yaml:"labels"`
}

// Check returns an error that names the key, its value and the fix, or nil.
func (c *WriteConfig) Check() error {
	for name := range c.Labels {
		if !model.LegacyValidation.IsValidLabelName(name) || name == model.MetricNameLabel {
			return fmt.Errorf("labels is with %q: it must have names of labels", name)
		}
	}
	return c.check()
}

// WriteStats count samples; Retries are attempts, and Gaps are losses from the log before sending.
type WriteStats struct {
	Sent     uint64
	Rejected uint64 // refused as invalid by the receiver
	Lost     uint64 // of unknown series
	Retries  uint64
	Gaps     uint64
}

const (
	// firstPause is the pause before the second attempt. It doubles up to lastPause.
	firstPause = time.Second
	lastPause  = 30 * time.Second
	// samplesPerRequest and writeTimeout bound one request.
	samplesPerRequest = 2000
	writeTimeout      = 30 * time.Second
)

// Writer sends new samples of the TSDB by remote write. The TSDB's write-ahead log is the queue.
//
// The receiver gets each sample at least once, in order, also late and queued ones. The log reaches back two to three
// hours; older samples are lost. Samples that the receiver refuses as invalid (400, 413, 422 …) are counted and
// skipped. Other failures (unreachable, busy, unauthorized) are retried.
type Writer struct {
	cfg     WriteConfig
	dir     string // of the TSDB
	log     *slog.Logger
	trouble func(error)
	client  *http.Client
	pause   time.Duration // after the first failure in a row

	follower follower // owned by the goroutine of Run

	segment, offset                     atomic.Int64
	sent, rejected, lost, retries, gaps atomic.Uint64
}

// NewWriter reads the certificates of cfg. It does not connect. dir is the directory of the open TSDB. trouble receives
// each failure, and nil after recovery, on the goroutine of Run.
func NewWriter(cfg WriteConfig, dir string, log *slog.Logger, trouble func(error)) (*Writer, error) {
	client, err := cfg.client()
	w := &Writer{cfg: cfg, dir: dir, log: log, trouble: trouble, client: client, pause: firstPause}
	w.follower = follower{
		dir: dir, log: log, take: w.take, labels: w.labels,
		lost: func(why string, err error) {
			w.gaps.Add(1)
			log.Error("remote write lost samples: "+why, "cause", fmt.Sprint(err))
		},
		offset: func(segment int, bytes int64) {
			w.segment.Store(int64(segment))
			w.offset.Store(bytes)
		},
	}
	return w, err
}

func (c *WriteConfig) client() (*http.Client, error) {
	transport, err := c.Transport("remote_write")
	return &http.Client{Transport: transport, Timeout: writeTimeout, CheckRedirect: httpclient.Stay}, err
}

// labels adds the configured labels.
func (w *Writer) labels(ls labels.Labels) labels.Labels {
	b := labels.NewBuilder(ls)
	for name, value := range w.cfg.Labels {
		if ls.Get(name) == "" {
			b.Set(name, value)
		}
	}
	return b.Labels()
}

// Run sends new samples until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	w.follower.run(ctx)
	return nil
}

// take sends samples of the log; false if ctx ended before.
func (w *Writer) take(ctx context.Context, all []record.RefSample) bool {
	for part := range slices.Chunk(all, samplesPerRequest) {
		series := make([]prompb.TimeSeries, 0, len(part))
		for _, x := range part {
			if ls, ok := w.follower.series[x.Ref]; ok {
				series = append(series, prompb.TimeSeries{Labels: prompb.FromLabels(ls, nil), Samples: []prompb.Sample{{Timestamp: x.T, Value: x.V}}})
			}
		}
		w.lost.Add(uint64(len(part) - len(series)))
		if len(series) > 0 && !w.deliver(ctx, series) {
			return false
		}
	}
	return true
}

// deliver sends samples until they are accepted or refused; false if ctx ended before.
func (w *Writer) deliver(ctx context.Context, series []prompb.TimeSeries) bool {
	count := uint64(len(series))
	for wait := w.pause; ; wait = min(2*wait, lastPause) {
		status, err := post(ctx, w.client, w.cfg.URL, series)
		switch {
		case err == nil:
			w.sent.Add(count)
			w.trouble(nil)
			return true
		case ctx.Err() != nil:
			return false
		case slices.Contains(invalidCodes, status):
			if w.rejected.Add(count) == count {
				w.log.Error("the receiver refuses samples; they are skipped and counted", "samples", count, "cause", err.Error())
			}
			return true
		}
		w.retries.Add(1)
		w.trouble(fmt.Errorf("remote write: %w", err))
		if !sleep.For(ctx, wait) {
			return false
		}
	}
}

// invalidCodes are the response codes for invalid samples, which a retry does not change.
var invalidCodes = []int{
	http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
}

// post makes one attempt. status is 0 without a response.
func post(ctx context.Context, client *http.Client, url string, series []prompb.TimeSeries) (status int, err error) {
	message, err := (&prompb.WriteRequest{Timeseries: series}).Marshal()
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(snappy.Encode(nil, message)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	req.Header.Set("User-Agent", "forewarm")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return resp.StatusCode, nil
	}
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // if the body is cut, the status is enough
	return resp.StatusCode, fmt.Errorf("%s answers %s: %s", httpclient.Redacted(url), resp.Status, bytes.TrimSpace(reply))
}

// ProbeWrite sends an empty request to check address and credentials. Errors name the fix.
func ProbeWrite(ctx context.Context, c WriteConfig) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	code, err := post(ctx, client, c.URL, nil)
	mend := "check remote_write.url, and that it can be reached from here"
	switch {
	case err == nil:
		return nil
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		mend = "check the path of remote_write.url; a Prometheus takes samples at /api/v1/write when it runs with --web.enable-remote-write-receiver"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		mend = "check the credentials and headers below remote_write"
	case code/100 == 3:
		mend = "redirects are not followed; set the url that it leads to"
	case code/100 == 5 || code == http.StatusTooManyRequests:
		mend = "the receiver is there, and in trouble; samples would wait on disk"
	}
	return fmt.Errorf("%w; %s", err, mend)
}

// Stats is safe for concurrent use.
func (w *Writer) Stats() WriteStats {
	return WriteStats{Sent: w.sent.Load(), Rejected: w.rejected.Load(), Lost: w.lost.Load(), Retries: w.retries.Load(), Gaps: w.gaps.Load()}
}

// Waiting returns the unsent bytes of the TSDB's log.
func (w *Writer) Waiting() int64 { return waiting(w.dir, int(w.segment.Load()), w.offset.Load()) }
