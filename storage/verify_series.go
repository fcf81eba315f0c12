package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/record"
	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/prometheus/prometheus/util/compression"
)

// series reads the TSDB: blocks, the head's chunks, and the logs of samples in and out of order.
func (v *verifier) series(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		v.say(dir, Damaged, "cannot be read: "+err.Error())
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch _, err := ulid.ParseStrict(e.Name()); {
		case err == nil && e.IsDir():
			v.block(path)
		case e.Name() == "chunks_head":
			v.headChunks(path)
		case e.Name() == "wal" || e.Name() == "wbl":
			v.writeAhead(path)
		}
	}
}

// block reads every series and sample of a block; index and chunks carry checksums.
func (v *verifier) block(path string) {
	meta, samples, err := v.readBlock(path)
	switch {
	case err != nil && v.inUse && !exists(path): // compacted away meanwhile
	case errors.As(openable(path), new(*VersionError)):
		v.damage(path, openable(path).Error(), nil)
	case err != nil:
		v.damage(path, err.Error(), func() (string, error) { return v.aside(path) })
	case samples != meta.Stats.NumSamples:
		v.damage(path, fmt.Sprintf("%d samples, its meta.json says %d", samples, meta.Stats.NumSamples), func() (string, error) { return v.aside(path) })
	default:
		v.say(path, Sound, fmt.Sprintf("block of %d series, %d samples", meta.Stats.NumSeries, samples))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (v *verifier) readBlock(path string) (meta tsdb.BlockMeta, samples uint64, err error) {
	b, err := tsdb.OpenBlock(discard, path, nil, nil)
	if err != nil {
		return meta, 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	ir, err := b.Index()
	if err != nil {
		return meta, 0, err
	}
	defer func() { err = errors.Join(err, ir.Close()) }()
	cr, err := b.Chunks()
	if err != nil {
		return meta, 0, err
	}
	defer func() { err = errors.Join(err, cr.Close()) }()
	name, value := index.AllPostingsKey()
	all, err := ir.Postings(v.ctx, name, value)
	if err != nil {
		return meta, 0, err
	}
	var builder labels.ScratchBuilder
	var metas []chunks.Meta
	var it chunkenc.Iterator
	for all.Next() {
		if err := v.ctx.Err(); err != nil {
			return meta, 0, err
		}
		if err := ir.Series(all.At(), &builder, &metas); err != nil {
			return meta, 0, err
		}
		for i := range metas {
			c, _, err := cr.ChunkOrIterable(metas[i])
			if err != nil {
				return meta, 0, err
			}
			it = c.Iterator(it)
			for it.Next() != chunkenc.ValNone {
				samples++
			}
			if err := it.Err(); err != nil {
				return meta, 0, fmt.Errorf("series %s: %w", builder.Labels(), err)
			}
		}
	}
	return b.Meta(), samples, all.Err()
}

// headChunks reads the chunks that the head keeps in files. The TSDB's own reader removes an empty last file, so it is given
// links to the files; where links cannot be made nothing is said of the chunks, for a restart can read them from the log.
func (v *verifier) headChunks(path string) {
	links, err := os.MkdirTemp(v.dir, "verify-")
	if err == nil {
		defer func() { _ = os.RemoveAll(links) }()
		err = chunks.HardLinkChunkFiles(path, links)
	}
	if err != nil {
		v.say(path, Noted, "not looked at, for no links to it can be made: "+err.Error())
		return
	}
	read, err := readHeadChunks(links)
	var corrupt *chunks.CorruptionErr
	switch {
	case err == nil:
		v.say(path, Sound, fmt.Sprintf("%d chunks", read))
	case v.inUse:
		v.say(path, Noted, fmt.Sprintf("%d chunks; the last one is being written, or torn: %v", read, err))
	case errors.As(err, &corrupt):
		v.damage(path, fmt.Sprintf("file %06d is corrupted after %d sound chunks: %v", corrupt.FileIndex, read, corrupt.Err), func() (string, error) {
			done, err := v.aside(path)
			return done + ": a restart reads its samples from the log", err
		})
	default:
		v.damage(path, err.Error(), nil)
	}
}

func readHeadChunks(dir string) (read int, err error) {
	m, err := chunks.NewChunkDiskMapper(nil, dir, chunkenc.NewPool(), chunks.MinWriteBufferSize, chunks.DefaultWriteQueueSize)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	err = m.IterateAllChunks(func(chunks.HeadSeriesRef, chunks.ChunkDiskMapperRef, int64, int64, uint16, chunkenc.Encoding, bool) error {
		read++
		return nil
	})
	return read, err
}

// writeAhead reads every record of a log, its newest checkpoint first.
func (v *verifier) writeAhead(path string) {
	if checkpoint, _, err := wlog.LastCheckpoint(path); err == nil {
		series, samples, err := readLog(checkpoint)
		if err != nil {
			v.damage(checkpoint, err.Error(), nil)
		} else {
			v.say(checkpoint, Sound, fmt.Sprintf("checkpoint of %d series, %d samples", series, samples))
		}
	} else if !errors.Is(err, record.ErrNotFound) {
		v.say(path, Damaged, "cannot be read: "+err.Error())
		return
	}
	series, samples, err := readLog(path)
	var corrupt *wlog.CorruptionErr
	switch {
	case err == nil:
		v.say(path, Sound, fmt.Sprintf("log of %d series, %d samples", series, samples))
	case v.inUse:
		v.say(path, Noted, fmt.Sprintf("log of %d series, %d samples; the end is being written, or torn: %v", series, samples, err))
	case errors.As(err, &corrupt):
		v.damage(path, fmt.Sprintf("%v, after %d samples", err, samples), func() (string, error) { return repairLog(path, corrupt) })
	default:
		v.damage(path, err.Error(), nil)
	}
}

// readLog counts the series and samples of a log's records; each has a checksum, and must be of a known kind.
func readLog(dir string) (series, samples int, err error) {
	segments, err := wlog.NewSegmentsReader(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, segments.Close()) }()
	d := record.NewDecoder(labels.NewSymbolTable(), discard)
	var (
		r           = wlog.NewReader(segments)
		seriesBatch []record.RefSeries
		sampleBatch []record.RefSample
	)
	for r.Next() {
		var err error
		switch b := r.Record(); d.Type(b) {
		case record.Series:
			seriesBatch, err = d.Series(b, seriesBatch[:0])
			series += len(seriesBatch)
		case record.Samples, record.SamplesV2:
			sampleBatch, err = d.Samples(b, sampleBatch[:0])
			samples += len(sampleBatch)
		}
		if err != nil {
			return series, samples, &wlog.CorruptionErr{Dir: dir, Segment: r.Segment(), Offset: r.Offset(), Err: err}
		}
	}
	return series, samples, r.Err()
}

// repairLog cuts a log where it is corrupted, as the TSDB does when it is opened, after keeping a copy of what that deletes.
func repairLog(dir string, corrupt *wlog.CorruptionErr) (string, error) {
	_, last, err := wlog.Segments(dir)
	if err != nil {
		return "", err
	}
	kept := filepath.Join(filepath.Dir(dir), filepath.Base(dir)+asideSuffix)
	if err := os.MkdirAll(kept, 0o750); err != nil {
		return "", err
	}
	for n := corrupt.Segment; n <= last; n++ {
		if err := copyFile(wlog.SegmentName(kept, n), wlog.SegmentName(dir, n)); err != nil {
			return "", err
		}
	}
	w, err := wlog.NewSize(discard, nil, dir, walSegment, compression.None)
	if err != nil {
		return "", err
	}
	err = w.Repair(corrupt)
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	return fmt.Sprintf("cut there; segments %d to %d as they were are kept in %s", corrupt.Segment, last, filepath.Base(kept)), nil
}

func copyFile(to, from string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return writeFile(realDisk{}, to, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}
