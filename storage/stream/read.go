package stream

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
)

// ErrNoDecision means that the log has no such decision, or no longer has it.
var ErrNoDecision = errors.New("no such decision in the log")

// Reader reads the decisions of a log.
type Reader struct {
	js     jetstream.JetStream
	stream string
	prefix string
}

// NewReader reads a stream with subjects below prefix.
func NewReader(js jetstream.JetStream, stream, prefix string) *Reader {
	return &Reader{js, stream, prefix}
}

// disorder bounds how far ticks of different pools can be out of order: their batches are stored one by one.
const disorder = 10 * time.Minute

// PoolDecisions returns the decisions of one pool whose tick is in [from, to).
func (r *Reader) PoolDecisions(ctx context.Context, pool string, from, to time.Time) (all []alerting.Decision, err error) {
	err = r.read(ctx, pool, from, to, func(x *alerting.Decision) error {
		all = append(all, *x)
		return nil
	})
	return all, err
}

// Decisions calls fn with every decision whose tick is in [from, to), in the order of the log.
func (r *Reader) Decisions(ctx context.Context, from, to time.Time, fn func(*alerting.Decision) error) error {
	return r.read(ctx, "", from, to, fn)
}

// read is Decisions of one pool; of all if pool is "".
func (r *Reader) read(ctx context.Context, pool string, from, to time.Time, fn func(*alerting.Decision) error) error {
	subject := ingest.Subject(r.prefix, ingest.DecisionSubject) + ".>"
	if pool != "" {
		subject = ingest.Subject(r.prefix, ingest.DecisionSubject, pool)
	}
	stream, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return err
	}
	first, err := search(ctx, stream, subject, from.Add(-disorder))
	if err != nil {
		return err
	}
	err = r.scan(ctx, subject, first, func(m jetstream.Msg) error {
		x, err := decode(m.Data())
		switch {
		case err != nil:
			return err
		case x.Decision.Tick.Before(from):
			return nil
		case x.Decision.Tick.After(to.Add(disorder)):
			return errEnough
		case !x.Decision.Tick.Before(to):
			return nil
		}
		return fn(&x.Decision)
	})
	if err != nil {
		return fmt.Errorf("decisions in %s: %w", r.stream, err)
	}
	return nil
}

// search returns a sequence: earlier decisions of a subject are before from, later ones are not. Ticks ascend.
func search(ctx context.Context, stream jetstream.Stream, subject string, from time.Time) (sequence uint64, err error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	end := info.State.LastSeq + 1
	first := min(max(info.State.FirstSeq, 1), end)
	n := sort.Search(int(end-first), func(i int) bool {
		m, e := stream.GetMsg(ctx, first+uint64(i), jetstream.WithGetMsgSubject(subject))
		if e != nil {
			if !errors.Is(e, jetstream.ErrMsgNotFound) {
				err = e
			}
			return true
		}
		x, e := decode(m.Data)
		return e != nil || !x.Decision.Tick.Before(from)
	})
	return first + uint64(n), err
}

// Newest returns the newest decision of each pool, with the state after it.
func (r *Reader) Newest(ctx context.Context) (all []Record, err error) {
	err = r.scan(ctx, ingest.Subject(r.prefix, ingest.DecisionSubject)+".>", 0, func(m jetstream.Msg) error {
		x, err := decode(m.Data())
		if err != nil {
			return fmt.Errorf("message on %s is no decision of this version: %w", m.Subject(), err)
		}
		all = append(all, x)
		return nil
	})
	return all, err
}

// Explain explains a decision. ref is an event's id (pool and generation), an event's evidence (pool@tick#sequence, of
// which the sequence is not compared), or a pool, for its newest decision. [ErrNoDecision] if there is none.
func (r *Reader) Explain(ctx context.Context, ref string) (x alerting.Explanation, err error) {
	newest, err := r.Newest(ctx)
	if err != nil {
		return x, err
	}
	for i := range newest {
		if newest[i].Decision.Pool == ref {
			return alerting.Explain(&newest[i].Decision, nil), nil
		}
	}
	var d *alerting.Decision
	var after []alerting.Decision
	match, pool, from := reference(ref)
	if match != nil {
		err = r.read(ctx, pool, from, time.Unix(1<<40, 0), func(x *alerting.Decision) error {
			switch {
			case d == nil && match(x):
				d = new(*x)
			case d != nil && x.Tick.Sub(d.Tick) > alerting.ExplainSpan:
				return errEnough
			case d != nil:
				after = append(after, *x)
			}
			return nil
		})
	}
	if err == nil && d == nil {
		err = fmt.Errorf("%w: %q; give the id of an event such as chat-29500000, its evidence, or a pool's name "+
			"for its newest decision, which a new pool has after a minute", ErrNoDecision, ref)
	}
	if err != nil {
		return x, err
	}
	return alerting.Explain(d, after), nil
}

// reference parses ref: the decision is the first of pool from a tick on that matches. match is nil if ref is neither
// an event nor evidence.
func reference(ref string) (match func(*alerting.Decision) bool, pool string, from time.Time) {
	if i := strings.LastIndex(ref, "@"); i > 0 {
		tick, _, _ := strings.Cut(ref[i+1:], "#")
		if at, err := time.Parse(time.RFC3339, tick); err == nil {
			return func(x *alerting.Decision) bool { return x.Tick.Equal(at) }, ref[:i], at
		}
	}
	if i := strings.LastIndex(ref, "-"); i > 0 {
		// A generation is at most the minute of its tick: see State.setPublish of package alerting.
		if generation, err := strconv.ParseInt(ref[i+1:], 10, 40); err == nil && generation > 0 {
			return func(x *alerting.Decision) bool { return x.Publish && x.EventID() == ref }, ref[:i], time.Unix(generation*60, 0)
		}
	}
	return nil, "", time.Time{}
}

func decode(data []byte) (x Record, err error) {
	var r record
	if err = cbor.Unmarshal(data, &r); err == nil {
		err = cbor.Unmarshal(r.Decision, &x.Decision)
	}
	x.State, x.encoded = r.State, r.Decision
	if err == nil && x.Decision.Tick.IsZero() {
		err = errors.New("it has no tick")
	}
	return x, err
}

var errEnough = errors.New("enough")

// scan calls fn with the log's current messages of a subject pattern, from a sequence on; if from is 0, with the last
// message of each subject. It ends without an error if fn returns errEnough.
func (r *Reader) scan(ctx context.Context, subject string, from uint64, fn func(jetstream.Msg) error) error {
	cfg := jetstream.ConsumerConfig{
		FilterSubject: subject, AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: 30 * time.Second,
	}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	consumer, err := r.js.CreateConsumer(ctx, r.stream, cfg)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = r.js.DeleteConsumer(ctx, r.stream, consumer.CachedInfo().Name) // the server deletes it later anyway
	}()
	for left := consumer.CachedInfo().NumPending; left > 0; {
		batch, err := consumer.Fetch(int(min(left, 256)), jetstream.FetchMaxWait(requestTimeout))
		if err != nil {
			return err
		}
		received := false
		for m := range batch.Messages() {
			received = true
			left--
			if err := fn(m); err != nil {
				if errors.Is(err, errEnough) {
					return nil
				}
				return err
			}
		}
		switch {
		case batch.Error() != nil:
			return batch.Error()
		case ctx.Err() != nil:
			return ctx.Err()
		case !received:
			return nil // they were deleted meanwhile
		}
	}
	return nil
}

// Alerts returns the newest state of each alert of a pool in the log, or of all pools if pool is "". Alerts stay for
// some hours after their end.
func (r *Reader) Alerts(ctx context.Context, pool string) (all []alerting.Alert, err error) {
	of := ">"
	if pool != "" {
		of = ingest.EscapeToken(pool) + ".>"
	}
	err = r.scan(ctx, ingest.Subject(r.prefix, ingest.NoticeSubject, kindAlert)+"."+of, 0, func(m jetstream.Msg) error {
		var n alerting.Notice
		if err := cbor.Unmarshal(m.Data(), &n); err != nil {
			return err
		}
		if n.Alert != nil {
			all = append(all, *n.Alert)
		}
		return nil
	})
	return all, err
}
