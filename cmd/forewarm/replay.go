package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nuid"

	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/sleep"
)

// traceFlags adds the flags for reading traces in backtest and replay.
func traceFlags(f *flag.FlagSet, o *backtest.Options) {
	f.DurationVar(&o.Bin, "bin", 0, "bin `width` of a binned trace (default: inferred)")
	f.StringVar(&o.Class, "class", "", "`class` of traces that name none (default: the file's name)")
	timeFlag(f, &o.Start, "start", "`time` of t_s = 0 in a CSV file, RFC 3339 (default: a Monday, midnight UTC)")
}

func replay(f *flag.FlagSet) action {
	connect := natsFlags(f)
	var o backtest.Options
	traceFlags(f, &o)
	f.StringVar(&o.Pool, "pool", backtest.DefaultPool, "`pool` that the traffic belongs to; the daemon must serve it")
	speed := f.Float64("speed", 0, "times faster than life; 1 is real time, 0 (default) as fast as possible")
	shift := "none"
	choice(f, &shift, "shift", "none (default) keeps the trace's times; start, end: it starts or ends now", "none", "start", "end")
	batch := f.Int("batch", 1, "records a message; more than one makes batches")
	runID := f.String("run-id", "", "`id` of this replay, for deduplication of its messages (default: a new one)")
	return func(ctx context.Context, args []string, std streams) error {
		switch {
		case *speed != 0 && !(*speed >= 1e-3 && *speed <= 1e6):
			return usagef("-speed is %v: it must be 0 (as fast as possible) or 0.001 to 1e6", *speed)
		case *batch < 1 || *batch > 1000:
			return usagef("-batch is %d: it must be 1 to 1000", *batch)
		}
		bar := progress{w: std.err}
		defer bar.finish()
		o.Progress = bar.show
		reader, err := asUsage(backtest.Open(args[0], o))
		if err != nil {
			return err
		}
		defer reader.Close()
		conn, p, prefix, err := connect(o.Pool)
		if err != nil {
			return err
		}
		defer conn.Close()
		began := time.Now()
		moved, err := shiftOf(ctx, shift, args[0], o, began)
		if err != nil {
			return err
		}
		r := &replayer{
			publisher: p, prefix: prefix, run: cmp.Or(*runID, nuid.Next()), pool: o.Pool, batch: *batch,
			moved: moved, speed: *speed, began: began,
		}
		source := backtest.NewSource(reader, o.Pool)
		for b, err := range source.Batches(ctx) {
			if err != nil {
				return err
			}
			if err := r.send(ctx, b); err != nil {
				return err
			}
		}
		bar.finish()
		fmt.Fprintf(std.out, "replayed %d records in %d messages over %s of traffic, in %s\n",
			r.records, r.messages, r.last.Sub(r.first).Round(time.Second), time.Since(began).Round(time.Millisecond))
		if shift == "none" && time.Since(r.last) > 10*time.Minute {
			fmt.Fprintf(std.err, "note: the traffic ends at %s; a daemon refuses it as late unless its clock follows telemetry (clock: event). "+
				"On the wall clock use -shift start -speed 1\n", r.last.UTC().Format(time.RFC3339))
		}
		traceNotes(reader, std)
		return nil
	}
}

// traceNotes prints the reader's assumptions, and what it skipped.
func traceNotes(r *backtest.Reader, std streams) {
	for _, n := range r.Summary.Notes {
		fmt.Fprintln(std.err, "note:", n)
	}
	if c := r.Summary; c.Refused > 0 {
		fmt.Fprintf(std.err, "note: %d rows were skipped; the first: %s\n", c.Refused, c.FirstRefused)
	}
}

// shiftOf returns how far a trace's times are moved: whole minutes, so that windows hold the same records.
func shiftOf(ctx context.Context, shift, path string, o backtest.Options, now time.Time) (time.Duration, error) {
	if shift == "none" {
		return 0, nil
	}
	r, err := asUsage(backtest.Open(path, o))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var it backtest.Item
	var at time.Time // of the first item, or the last one
	for ctx.Err() == nil {
		err := r.Next(&it)
		if errors.Is(err, io.EOF) {
			return now.Sub(at).Truncate(features.Minute), nil
		}
		if err != nil {
			return 0, err
		}
		if at.IsZero() || shift == "end" {
			at = it.At()
		}
	}
	return 0, ctx.Err()
}

// replayer publishes batches when they are due.
type replayer struct {
	publisher   *jetstream.Publisher
	prefix, run string
	pool        string
	batch       int
	moved       time.Duration // of the trace's times
	speed       float64
	began       time.Time

	first, last       time.Time // of the trace
	records, messages int
}

func (r *replayer) send(ctx context.Context, b *ingest.Batch) error {
	if len(b.Requests) > 0 && r.first.IsZero() {
		r.first = b.Requests[0].EventTime()
	}
	for part := range slices.Chunk(b.Requests, r.batch) {
		class, due := part[0].Class, part[len(part)-1].EventTime()
		for i := range part {
			x := &part[i]
			x.ID = r.run + "-" + x.ID
			for _, t := range []*time.Time{&x.ArrivedAt, &x.StartedAt, &x.FirstTokenAt, &x.FinishedAt} {
				if !t.IsZero() {
					*t = t.Add(r.moved).Truncate(time.Millisecond)
				}
			}
		}
		if err := r.publishAt(ctx, due, class, len(part), &ingest.Batch{Requests: part}); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(b.Sums, r.batch) {
		class, due := part[0].Class, part[len(part)-1].Start
		for i := range part {
			part[i].Start = part[i].Start.Add(r.moved)
		}
		if err := r.publishAt(ctx, due, class, len(part), &ingest.Batch{Sums: part}); err != nil {
			return err
		}
	}
	if w := b.Watermark; w != nil {
		if err := r.pace(ctx, w.At); err != nil {
			return err
		}
		// Also in a hole of the trace: a daemon treats a jump in time as an error until several records confirm it.
		moved := ingest.Watermark{Pool: r.pool, At: w.At.Add(r.moved)}
		return r.publish(ctx, ingest.Subject(r.prefix, ingest.WatermarkSubject, r.pool), &ingest.Batch{Watermark: &moved})
	}
	return nil
}

// publishAt publishes records once the last of them is due.
func (r *replayer) publishAt(ctx context.Context, due time.Time, class string, records int, b *ingest.Batch) error {
	if err := r.pace(ctx, due); err != nil {
		return err
	}
	r.records += records
	if r.batch > 1 {
		class = "" // records of several classes name their class
	}
	return r.publish(ctx, ingest.Subject(r.prefix, ingest.RequestSubject, r.pool, class), b)
}

func (r *replayer) publish(ctx context.Context, subject string, b *ingest.Batch) error {
	r.messages++
	return r.publisher.Publish(ctx, subject, r.run+"-"+strconv.Itoa(r.messages), b)
}

// pace waits until a record of trace time t is due.
func (r *replayer) pace(ctx context.Context, t time.Time) error {
	if r.first.IsZero() {
		r.first = t
	}
	r.last = t
	if r.speed == 0 {
		return ctx.Err()
	}
	sleep.For(ctx, time.Until(r.began.Add(time.Duration(float64(t.Sub(r.first))/r.speed))))
	return ctx.Err()
}
