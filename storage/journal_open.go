package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/prometheus/prometheus/tsdb/fileutil"
)

const (
	segmentPrefix = "journal-"
	segmentSuffix = ".log"
	cutSuffix     = ".cut"
)

// placed is the part of a decision that says where it is.
type placed struct {
	Pool string    `cbor:"1,keyasint"`
	Tick time.Time `cbor:"2,keyasint"`
}

func (j *Journal) open() error {
	numbers, err := list(j.dir, segmentPrefix, segmentSuffix)
	if err != nil {
		return err
	}
	if len(numbers) == 0 {
		if j.file, err = j.create(1); err == nil {
			j.segments = []segment{{number: 1, size: int64(len(journalMagic))}}
		}
		return err
	}
	newest := len(numbers) - 1
	for i, n := range numbers {
		s := segment{number: n}
		err := j.survey(&s, i == newest)
		var damage *damageError
		switch {
		case errors.As(err, &damage) && i == newest:
			if err := j.cut(&s, damage); err != nil {
				return fmt.Errorf("%s: torn end cannot be cut: %w", j.path(n), err)
			}
		case err != nil:
			return fmt.Errorf("%s: %w: restore it, or move it away (reports then lack its decisions)", j.path(n), err)
		}
		j.segments = append(j.segments, s)
	}
	if newest > 0 && j.segments[newest].first.Tick.IsZero() { // a crash came between making a segment and its first record
		before := segment{number: numbers[newest-1]}
		if err := j.survey(&before, true); err != nil {
			return fmt.Errorf("%s: %w: restore it, or move it away (reports then lack its decisions)", j.path(before.number), err)
		}
	}
	j.file, err = os.OpenFile(j.path(numbers[newest]), os.O_WRONLY|os.O_APPEND, 0o640)
	return err
}

// survey reads a segment, or its first record only, and fills in s and the journal's last position. What a crash can
// leave is a [damageError], from byte s.size on.
func (j *Journal) survey(s *segment, whole bool) error {
	f, err := os.Open(j.path(s.number))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r, err := newRecordReader(f, journalMagic)
	for err == nil {
		s.size = r.offset
		var payload []byte
		if payload, err = r.next(); err != nil {
			break
		}
		var p placed
		if err := cbor.Unmarshal(payload, &p); err != nil || p.Tick.IsZero() {
			return fmt.Errorf("record at byte %d is intact but not a decision of this version (%w)", s.size, err)
		}
		j.last = Position{Tick: p.Tick, Pool: p.Pool}
		if s.first.Tick.IsZero() {
			s.first = j.last
		}
		if !whole {
			s.size = info.Size()
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// cut removes everything from byte s.size on, after keeping a copy of it.
func (j *Journal) cut(s *segment, damage error) error {
	path := j.path(s.number)
	torn, err := cutTail(path, s.size, journalMagic)
	if err != nil {
		return err
	}
	s.size = max(s.size, int64(len(journalMagic)))
	j.counters.CutBytes += uint64(torn)
	j.log.Warn("the journal's torn end was cut off; the replay makes its decisions again",
		"segment", path, "at_byte", s.size, "bytes", torn, "kept_in", path+cutSuffix, "cause", damage.Error())
	return nil
}

// cutTail removes everything from byte size on of a file of records, after keeping a copy of it beside the file. Where not
// even the first line is whole, the file is left with that alone.
func cutTail(path string, size int64, kind string) (bytes int, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	if err := writeFile(path+cutSuffix, exactly(b[size:])); err != nil {
		return 0, err
	}
	if size == 0 {
		return len(b), writeFile(path, exactly([]byte(kind)))
	}
	return len(b[size:]), truncate(path, size)
}

func truncate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// create makes an empty segment and its directory entry durable.
func (j *Journal) create(number uint64) (appendFile, error) {
	f, err := os.OpenFile(j.path(number), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteString(journalMagic); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(j.dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func syncDir(dir string) error {
	d, err := fileutil.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
