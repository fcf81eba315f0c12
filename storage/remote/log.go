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

// position is where in the TSDB's write-ahead log a reader is: so many records of a segment are dealt with.
type position struct {
	Segment int `json:"segment"`
	Records int `json:"records"`
}

// follower reads the samples that the TSDB appends from its write-ahead log, in order, and goes on after a restart where it
// was. Prometheus' own reader begins at the present when it is started, and passes over samples that are older: those of
// windows that settle after a restart.
type follower struct {
	dir    string // of the TSDB
	log    *slog.Logger
	take   func(ctx context.Context, samples []record.RefSample) bool // false once ctx has ended
	labels func(labels.Labels) labels.Labels                          // as they are sent

	at         position
	known      bool // where it was
	kept       time.Time
	checkpoint string // that the series were read from
	series     map[chunks.HeadSeriesRef]labels.Labels
	lost       func(why string, err error) // what was not read is gone
	offset     func(segment int, bytes int64)
}

const (
	positionFile = "remote.json" // in the TSDB's directory: it goes with it
	lookEvery    = time.Second   // for what was appended
	keepEvery    = time.Second   // the position, which a crash forgets so much of
	retryEvery   = 5 * time.Second
)

// run reads until ctx ends.
func (f *follower) run(ctx context.Context) {
	if data, err := os.ReadFile(filepath.Join(f.dir, positionFile)); err == nil {
		f.known = json.Unmarshal(data, &f.at) == nil // otherwise it begins with what this process appends
	}
	for ctx.Err() == nil {
		if err := f.follow(ctx); err != nil && ctx.Err() == nil {
			f.log.Warn("the log of the series cannot be read for the remote; it is tried again", "cause", err.Error())
			sleep.For(ctx, retryEvery)
		}
	}
	if f.known {
		f.keep()
	}
}

func (f *follower) wal() string { return filepath.Join(f.dir, "wal") }

// follow reads one segment after the other.
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

// learn reads which series there are before the segment, where the newest checkpoint has not been read; so it forgets those
// that are no more.
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
			f.log.Warn("the log of the series is torn", "cause", err.Error()) // samples of a series that is not known are counted
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

// segment reads the segment to its end, once there is a newer one.
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
		if !sleep.For(ctx, lookEvery) {
			return nil
		}
	}
}

// keep writes down the position. Where that fails more is sent again after a restart.
func (f *follower) keep() {
	f.kept = time.Now()
	data, err := json.Marshal(f.at)
	if err == nil {
		err = storage.WriteFile(filepath.Join(f.dir, positionFile), data)
	}
	if err != nil {
		f.log.Debug("where the remote is in the log of the series is not written down", "cause", err.Error())
	}
}

// waiting is how many bytes of the log come after an offset of a segment.
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
