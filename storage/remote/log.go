package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/record"
	"github.com/prometheus/prometheus/tsdb/wlog"

	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/storage"
)

// position is a reader's place in the TSDB's write-ahead log: a segment and the number of handled records in it.
type position struct {
	Segment int `json:"segment"`
	Records int `json:"records"`
}

// follower reads new samples from the TSDB's write-ahead log, in order, and continues after a restart. Prometheus' own
// reader starts at the present and skips older samples. Windows that settle after a restart would be lost.
type follower struct {
	dir    string // of the TSDB
	log    *slog.Logger
	take   func(ctx context.Context, samples []record.RefSample) bool // false after ctx has ended
	labels func(labels.Labels) labels.Labels                          // converts labels for the receiver

	at         position
	known      bool // the position is known
	kept       time.Time
	checkpoint string // the newest that was read for series
	series     map[chunks.HeadSeriesRef]labels.Labels
	lost       func(why string, err error) // called when unread records were deleted
	offset     func(segment int, bytes int64)
}

const (
	positionFile = "remote.json" // in the TSDB's directory, and deleted with it
	pollEvery    = time.Second   // for new records
	keepEvery    = time.Second   // the position; a crash repeats up to this much
	retryEvery   = 5 * time.Second
)

// run reads until ctx ends.
func (f *follower) run(ctx context.Context) {
	if data, err := os.ReadFile(filepath.Join(f.dir, positionFile)); err == nil {
		f.known = json.Unmarshal(data, &f.at) == nil // otherwise it starts with the samples of this process
	}
	for ctx.Err() == nil {
		if err := f.follow(ctx); err != nil && ctx.Err() == nil {
			f.log.Warn("remote write cannot read the log of the series; retrying", "cause", err.Error())
			sleep.For(ctx, retryEvery)
		}
	}
	if f.known {
		f.keep()
	}
}

func (f *follower) wal() string { return filepath.Join(f.dir, "wal") }

// follow reads one segment after another.
func (f *follower) follow(ctx context.Context) error {
	first, last, err := wlog.Segments(f.wal())
	if err != nil || last < 0 {
		return errors.Join(err, errors.New("there is none"))
	}
	switch {
	case !f.known || f.at.Segment > last:
		f.at = position{Segment: last}
	case f.at.Segment < first:
		f.lost("the receiver was away for longer than the log of the series reaches back: what was removed from it will be missing there", nil)
		f.at = position{Segment: first}
	}
	f.known, f.checkpoint, f.series = true, "", nil
	for ctx.Err() == nil {
		if err := f.learn(); err != nil {
			return err
		}
		if err := f.segment(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		f.at = position{Segment: f.at.Segment + 1}
		f.keep()
	}
	return nil
}

// learn reads the series of the newest checkpoint, if that is new, and of later segments. It drops deleted series.
func (f *follower) learn() error {
	checkpoint, index, err := wlog.LastCheckpoint(f.wal())
	if errors.Is(err, record.ErrNotFound) {
		checkpoint, index, err = "", -1, nil
	}
	if err != nil || f.series != nil && checkpoint == f.checkpoint {
		return err
	}
	f.series, f.checkpoint = map[chunks.HeadSeriesRef]labels.Labels{}, checkpoint
	var parts []wlog.SegmentRange
	if checkpoint != "" {
		parts = append(parts, wlog.SegmentRange{Dir: checkpoint, First: -1, Last: -1})
	}
	if f.at.Segment > index+1 {
		parts = append(parts, wlog.SegmentRange{Dir: f.wal(), First: index + 1, Last: f.at.Segment - 1})
	}
	for _, part := range parts {
		segments, err := wlog.NewSegmentsRangeReader(part)
		if err != nil {
			return err
		}
		r, dec := wlog.NewReader(segments), record.NewDecoder(nil, f.log)
		for r.Next() {
			if dec.Type(r.Record()) == record.Series {
				f.store(&dec, r.Record())
			}
		}
		if err := errors.Join(r.Err(), segments.Close()); err != nil {
			f.log.Warn("the log of the series is torn", "cause", err.Error()) // samples of unknown series are counted
		}
	}
	return nil
}

func (f *follower) store(dec *record.Decoder, rec []byte) {
	series, err := dec.Series(rec, nil)
	if err != nil {
		f.lost("a record cannot be decoded", err)
	}
	for _, s := range series {
		f.series[s.Ref] = f.labels(s.Labels.Copy())
	}
}

// segment reads a segment to its end, until there is a newer one.
func (f *follower) segment(ctx context.Context) error {
	s, err := wlog.OpenReadSegment(wlog.SegmentName(f.wal(), f.at.Segment))
	if err != nil {
		return err
	}
	defer s.Close()
	live, dec := wlog.NewLiveReader(f.log, wlog.NewLiveReaderMetrics(nil), s), record.NewDecoder(nil, f.log)
	var samples []record.RefSample
	for records := 0; ; {
		_, last, err := wlog.Segments(f.wal())
		if err != nil {
			return err
		}
		for live.Next() {
			rec := live.Record()
			switch dec.Type(rec) {
			case record.Series:
				f.store(&dec, rec)
			case record.Samples, record.SamplesV2:
				if records < f.at.Records {
					break
				}
				if samples, err = dec.Samples(rec, samples[:0]); err != nil {
					f.lost("a record cannot be decoded", err)
				} else if !f.take(ctx, samples) {
					return nil
				}
			}
			if records++; records > f.at.Records {
				f.at.Records = records
			}
			if f.offset(f.at.Segment, live.Offset()); time.Since(f.kept) >= keepEvery {
				f.keep()
			}
		}
		switch err := live.Err(); {
		case last > f.at.Segment && err != nil && !errors.Is(err, io.EOF):
			f.lost("a segment is torn: what follows in it is left out", err)
			return nil
		case last > f.at.Segment:
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("segment %d: %w", f.at.Segment, err)
		}
		if !sleep.For(ctx, pollEvery) {
			return nil
		}
	}
}

// keep stores the position. If that fails, a restart sends some samples again.
func (f *follower) keep() {
	f.kept = time.Now()
	data, err := json.Marshal(f.at)
	if err == nil {
		err = storage.WriteFile(filepath.Join(f.dir, positionFile), data)
	}
	if err != nil {
		f.log.Debug("the position of remote write was not stored", "cause", err.Error())
	}
}

// waiting returns the bytes of the log after an offset of a segment.
func waiting(dir string, segment int, offset int64) (bytes int64) {
	wal := filepath.Join(dir, "wal")
	_, last, err := wlog.Segments(wal)
	for n := segment; err == nil && n <= last; n++ {
		if i, err := os.Stat(wlog.SegmentName(wal, n)); err == nil {
			bytes += i.Size()
		}
	}
	return max(0, bytes-offset)
}
