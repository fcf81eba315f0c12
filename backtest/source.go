package backtest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

const (
	// batchRecords bounds the records in a batch.
	batchRecords = 1024
	// maxSilence is the longest silence that counts as zero traffic. A longer one is a hole in the log: no data.
	maxSilence = 7 * 24 * time.Hour
	// A shorter silence is a hole if it is holeTimes as long as any before and at least minHole, after the first
	// holeAfter of a trace. That time shows its normal silence, for example at night.
	holeTimes = 10
	minHole   = time.Hour
	holeAfter = 48 * time.Hour
)

// Source converts a trace to the batches of an event log, in order of event time.
//
// A trace is complete. So at the end of each minute the source writes a watermark for the pool: silence is zero
// traffic. With features.Config.Lateness 0 the windows of [o−60 s, o) are complete at origin o, and nothing from o on
// is known. A trace has one pool. In a hole of the log (see the constants above) the watermarks name no pool: the
// minutes are unknown.
//
// A bin wider than a minute is spread evenly over its minutes, each revealed at its start. So minutes of a bin that is
// not over at the origin are known from the whole bin's sum.
type Source struct {
	items       Items
	pool        string
	everyMinute bool // an item is expected in every minute: any silence is a hole
	item        Item
	held        bool
	end         time.Time     // of the open minute; zero before the first item
	first       time.Time     // time of the first item
	newest      time.Time     // time of the newest item
	longest     time.Duration // longest silence before it
	n           uint64        // requests so far
	sequence    uint64
}

// NewSource reads from items; pool "" means DefaultPool.
func NewSource(items Items, pool string) *Source {
	return &Source{items: items, pool: cmp.Or(pool, DefaultPool)}
}

// Batches returns the batches up to the end, or the first error of the trace or ctx. Each is valid until the next one.
func (s *Source) Batches(ctx context.Context) iter.Seq2[*ingest.Batch, error] {
	return func(yield func(*ingest.Batch, error) bool) {
		var b ingest.Batch
		for {
			err := cmp.Or(s.Next(&b), ctx.Err())
			if errors.Is(err, io.EOF) || !yield(&b, err) || err != nil {
				return
			}
		}
	}
}

// Next sets b to the next batch, at most to the end of a minute; io.EOF at the end.
func (s *Source) Next(b *ingest.Batch) error {
	b.Reset()
	s.sequence++
	b.Sequence = s.sequence
	for len(b.Requests)+len(b.Sums) < batchRecords {
		if !s.held {
			if err := s.items.Next(&s.item); errors.Is(err, io.EOF) {
				if s.end.IsZero() {
					return io.EOF
				}
				b.Watermark = &ingest.Watermark{Pool: s.pool, At: s.end}
				s.end = time.Time{}
				return nil
			} else if err != nil {
				return err
			}
			s.held = true
		}
		at := s.item.At()
		if s.end.IsZero() {
			s.end = at.Truncate(features.Minute).Add(features.Minute)
		}
		if !at.Before(s.end) {
			end := s.end
			s.end = end.Add(features.Minute)
			if at.Sub(end) > maxSilence {
				s.end = at.Truncate(features.Minute).Add(features.Minute)
			}
			b.Watermark = &ingest.Watermark{Pool: s.pool, At: end}
			silence := at.Sub(s.newest)
			unusual := silence >= minHole && silence > holeTimes*s.longest && s.newest.Sub(s.first) >= holeAfter
			silent := s.newest.Before(end.Add(-features.Minute)) // the whole minute
			if silent && (s.everyMinute || silence > maxSilence || unusual) {
				b.Watermark.Pool = ""
			}
			return nil
		}
		if s.first.IsZero() {
			s.first, s.newest = at, at
		}
		s.newest, s.longest = at, max(s.longest, at.Sub(s.newest))
		s.add(b)
	}
	return nil
}

func (s *Source) add(b *ingest.Batch) {
	s.held = false
	if s.item.Sum != nil {
		sum := *s.item.Sum
		sum.Pool = s.pool
		b.Sums = append(b.Sums, sum)
		return
	}
	s.n++
	request := *s.item.Request
	request.Pool = s.pool
	if request.ID == "" && request.Attempt <= 1 { // otherwise a later attempt would look like the first of its call
		request.ID = strconv.FormatUint(s.n, 10)
	}
	b.Requests = append(b.Requests, request)
}
