package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/storage"
)

// WriteConfig configures the receiver of all stored series, by Prometheus remote write 1.0.
type WriteConfig struct {
	httpclient.Endpoint `yaml:",inline"`
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
	return c.Endpoint.Check()
}

const (
	// firstPause is the pause before the second attempt. It doubles up to lastPause.
	firstPause = time.Second
	lastPause  = 30 * time.Second
	// samplesPerRequest and writeTimeout bound one request; a request has whole series of one step.
	samplesPerRequest = 2000
	writeTimeout      = 30 * time.Second
	// pollEvery is the time between two looks for new samples.
	pollEvery = time.Second
	// step is the time of samples that are read at once.
	step = time.Hour
	// reach is how far a new sample may lag behind the newest one: the TSDB refuses older ones.
	reach = 3 * time.Hour
	// positionFile has the position. It is in the TSDB's directory, so that it is deleted with it.
	positionFile = "remote.json"
)

// Store is a store of series.
type Store interface {
	promstorage.Queryable
	// Newest returns the time of the newest sample, Unix ms; ok is false if there is none.
	Newest() (t int64, ok bool)
}

// Writer sends new samples of the TSDB by remote write. The TSDB itself is the queue, so a receiver may be away for as
// long as series are kept (storage.retention), over restarts too. The first start begins with the newest hours.
//
// The receiver gets each sample at least once, and those of a series in order. All series of one name get their samples
// in order of time, because all minutes settle after the same time. So one time per name is the position. Samples that
// the receiver refuses as invalid (400, 413, 422 …) are counted and skipped. Other failures (unreachable, busy,
// unauthorized) are retried.
type Writer struct {
	Sent     atomic.Uint64 // samples
	Rejected atomic.Uint64 // samples refused as invalid by the receiver
	Retries  atomic.Uint64 // attempts

	cfg     WriteConfig
	store   Store
	file    string // with the position
	log     *slog.Logger
	trouble func(error)
	client  *http.Client
	pause   time.Duration // after the first failure in a row

	sentTo map[string]int64 // by series name: the time up to which all is sent, Unix ms
	done   atomic.Int64     // newest sample when all was sent, Unix ms; 0 before the first
}

// NewWriter reads the certificates of cfg. It does not connect. dir is the directory of the TSDB. trouble receives each
// failure, and nil after recovery, on the goroutine of Run.
func NewWriter(cfg WriteConfig, store Store, dir string, log *slog.Logger, trouble func(error)) (*Writer, error) {
	client, err := cfg.client()
	return &Writer{cfg: cfg, store: store, file: filepath.Join(dir, positionFile), log: log, trouble: trouble, client: client, pause: firstPause}, err
}

func (c *WriteConfig) client() (*http.Client, error) {
	transport, err := c.API("remote_write")
	return &http.Client{Transport: transport, Timeout: writeTimeout, CheckRedirect: httpclient.NoRedirect}, err
}

// Run sends new samples until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	w.sentTo = map[string]int64{}
	if data, err := os.ReadFile(w.file); err == nil {
		_ = json.Unmarshal(data, &w.sentTo) // without a position it begins with the newest hours
	}
	for _, t := range w.sentTo {
		w.done.Store(max(w.done.Load(), t))
	}
	for {
		if err := w.sendNew(ctx); err != nil && ctx.Err() == nil {
			w.trouble(fmt.Errorf("remote write: %w", err))
		}
		if !sleep.For(ctx, pollEvery) {
			return nil
		}
	}
}

// sendNew sends what was stored since it was last called.
func (w *Writer) sendNew(ctx context.Context) error {
	newest, ok := w.store.Newest()
	if !ok || newest == w.done.Load() {
		return nil
	}
	if w.done.Load() == 0 {
		w.done.Store(newest - reach.Milliseconds())
	}
	q, err := w.store.Querier(w.done.Load()-reach.Milliseconds(), newest)
	if err != nil {
		return err
	}
	names, _, err := q.LabelValues(ctx, model.MetricNameLabel, nil)
	if err = errors.Join(err, q.Close()); err != nil {
		return err
	}
	sent := int64(0)
	for _, name := range names {
		if err = w.sendSeries(ctx, name, newest); err != nil {
			break
		}
		sent = max(sent, w.sentTo[name])
	}
	if err == nil {
		w.done.Store(sent) // it is before newest if a tick is just being committed
	}
	data, e := json.Marshal(w.sentTo)
	if e = errors.Join(e, storage.WriteFile(w.file, data)); e != nil {
		w.log.Debug("the position of remote write was not stored; a restart sends some samples again", "cause", e.Error())
	}
	return err
}

// sendSeries sends the new samples of the series of a name.
func (w *Writer) sendSeries(ctx context.Context, name string, newest int64) error {
	from, known := w.sentTo[name]
	if !known {
		from = w.done.Load() - reach.Milliseconds()
	}
	for from < newest {
		to := min(from+step.Milliseconds(), newest)
		series, last, err := w.read(ctx, name, from+1, to)
		if err != nil {
			return err
		}
		for len(series) > 0 {
			n, samples := 0, 0
			for n < len(series) && samples < samplesPerRequest {
				samples += len(series[n].Samples)
				n++
			}
			if !w.deliver(ctx, series[:n], uint64(samples)) {
				return ctx.Err()
			}
			series = series[n:]
		}
		from = to
		w.sentTo[name] = max(last, w.sentTo[name], min(to, newest-reach.Milliseconds()))
	}
	return nil
}

// read returns the samples of a name from a time to another, and the time of the newest of them. It copies them, so
// that a slow receiver does not keep the TSDB from deleting blocks.
func (w *Writer) read(ctx context.Context, name string, from, to int64) (series []prompb.TimeSeries, last int64, err error) {
	q, err := w.store.Querier(from, to)
	if err != nil {
		return nil, 0, err
	}
	defer q.Close()
	var it chunkenc.Iterator
	set := q.Select(ctx, false, nil, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name))
	for set.Next() {
		x := prompb.TimeSeries{Labels: prompb.FromLabels(w.labels(set.At().Labels()), nil)}
		for it = set.At().Iterator(it); it.Next() == chunkenc.ValFloat; {
			t, v := it.At()
			x.Samples = append(x.Samples, prompb.Sample{Timestamp: t, Value: v})
			last = max(last, t)
		}
		if err := it.Err(); err != nil {
			return nil, 0, err
		}
		if len(x.Samples) > 0 {
			series = append(series, x)
		}
	}
	return series, last, set.Err()
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

// deliver sends series until they are accepted or refused; false if ctx ended before.
func (w *Writer) deliver(ctx context.Context, series []prompb.TimeSeries, samples uint64) bool {
	for wait := w.pause; ; wait = min(2*wait, lastPause) {
		status, err := post(ctx, w.client, w.cfg.URL, series)
		switch {
		case err == nil:
			w.Sent.Add(samples)
			w.trouble(nil)
			return true
		case ctx.Err() != nil:
			return false
		case slices.Contains(invalidCodes, status):
			if w.Rejected.Add(samples) == samples {
				w.log.Error("the receiver refuses samples; they are skipped and counted", "samples", samples, "cause", err.Error())
			}
			return true
		}
		w.Retries.Add(1)
		w.trouble(fmt.Errorf("remote write: %w", err))
		if !sleep.For(ctx, wait) {
			return false
		}
	}
}

// Waiting is the time between the newest sample that was sent and the newest that is stored, seconds; NaN if unknown.
func (w *Writer) Waiting() float64 {
	newest, ok := w.store.Newest()
	done := w.done.Load()
	if !ok || done == 0 {
		return math.NaN()
	}
	return float64(newest-done) / 1e3
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
	header := http.Header{
		"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"}, "X-Prometheus-Remote-Write-Version": {"0.1.0"},
	}
	err = httpclient.Post(ctx, client, url, header, snappy.Encode(nil, message))
	answer, _ := errors.AsType[httpclient.StatusError](err)
	if err != nil {
		err = fmt.Errorf("post to %s: %w", httpclient.Redacted(url), err)
	}
	return answer.Code, err
}

// ProbeWrite sends an empty request to check address and credentials. Errors name the fix.
func ProbeWrite(ctx context.Context, c WriteConfig) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if _, err = post(ctx, client, c.URL, nil); err != nil {
		return fmt.Errorf("%w; check remote_write.url with its path, and the credentials and headers below remote_write; "+
			"a Prometheus takes samples at /api/v1/write when it runs with --web.enable-remote-write-receiver", err)
	}
	return nil
}
