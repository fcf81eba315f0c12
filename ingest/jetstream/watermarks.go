package jetstream

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
)

// Ticker writes the time into the telemetry stream: for each minute T a watermark without a pool, at T + lateness by the
// wall clock. Daemons that share a stream give it the same message id, so that it is stored once.
type Ticker struct {
	publish  func(ctx context.Context, subject, id string, data []byte) error
	subject  string
	lateness time.Duration
	log      *zap.Logger
}

// NewTicker publishes through js to the watermark subject below prefix.
func NewTicker(js jetstream.JetStream, prefix string, lateness time.Duration, log *zap.Logger) *Ticker {
	publish := func(ctx context.Context, subject, id string, data []byte) error {
		m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
		m.Header.Set(headerContentType, ingest.ContentTypeJSON)
		_, err := js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
		return err
	}
	return &Ticker{publish: publish, subject: ingest.WatermarkSubject(prefix, ""), lateness: lateness, log: log}
}

// tickRetry is how long the ticker waits before it offers a watermark again.
const tickRetry = time.Second

// Run publishes until ctx ends, and then returns nil. A watermark that could not be stored is offered again until the
// next one is due, which then stands for both.
func (t *Ticker) Run(ctx context.Context) error {
	minute := time.Now().Add(-t.lateness).Truncate(time.Minute)
	for {
		minute = minute.Add(time.Minute)
		if late := time.Now().Add(-t.lateness).Truncate(time.Minute); late.After(minute) {
			minute = late // the machine slept, or the clock was set
		}
		if !sleep(ctx, time.Until(minute.Add(t.lateness))) {
			return nil
		}
		t.tick(ctx, minute, "watermark-"+strconv.FormatInt(minute.Unix(), 10))
	}
}

func (t *Ticker) tick(ctx context.Context, minute time.Time, id string) {
	ctx, cancel := context.WithDeadline(ctx, minute.Add(t.lateness+time.Minute))
	defer cancel()
	data := ingest.AppendWatermark(nil, &ingest.Watermark{At: minute})
	for {
		err := t.publish(ctx, t.subject, id, data)
		if err == nil || ctx.Err() != nil {
			return
		}
		t.log.Warn("watermark not stored, trying again", zap.Time("at", minute), zap.Error(err))
		if !sleep(ctx, tickRetry) {
			return
		}
	}
}

// sleep waits for d, or until ctx ends: then it is false.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
