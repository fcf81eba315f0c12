package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fxamacker/cbor/v2"
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
	numbers, err := list(j.disk, j.dir, segmentPrefix, segmentSuffix)
	if err != nil {
		return err
	}
	if len(numbers) == 0 {
		if j.file, err = j.create(1, nil); err == nil {
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
			return fmt.Errorf("%s: %w; restore it, let forewarm verify -repair cut it, or move it away (reports then lack its decisions)", j.path(n), err)
		}
		j.segments = append(j.segments, s)
	}
	if newest > 0 && j.segments[newest].first.Tick.IsZero() { // a crash came between making a segment and its first record
		before := segment{number: numbers[newest-1]}
		if err := j.survey(&before, true); err != nil {
			return fmt.Errorf("%s: %w; restore it, let forewarm verify -repair cut it, or move it away (reports then lack its decisions)", j.path(before.number), err)
		}
	}
	if j.segments[newest].first.Tick.IsZero() { // whether its first line is on disk is not known
		j.segments[newest].size = int64(len(journalMagic))
		j.file, err = j.create(numbers[newest], nil)
		return err
	}
	if j.file, err = j.disk.OpenFile(j.path(numbers[newest]), os.O_WRONLY|os.O_APPEND); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil { // what the last process wrote, and did not sync
		return errors.Join(err, j.file.Close())
	}
	return nil
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
	torn, err := cutTail(j.disk, path, s.size, journalMagic)
	if err != nil {
		return err
	}
	s.size = max(s.size, int64(len(journalMagic)))
	j.counters.CutBytes += uint64(torn)
	j.log.Warn("the journal's torn end was cut off; the replay makes its decisions again",
		"segment", path, "at_byte", s.size, "bytes", torn, "kept_in", path+cutSuffix, "cause", damage.Error())
	return nil
}

// create makes a segment of these records, and has it and its directory entry survive a loss of power.
func (j *Journal) create(number uint64, records []byte) (file, error) {
	f, err := j.disk.OpenFile(j.path(number), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(append([]byte(journalMagic), records...)); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.disk.SyncDir(j.dir)
	}
	if err != nil {
		err = errors.Join(err, f.Close())
		_ = j.disk.Remove(j.path(number)) // another fsync of it may say that all is well
		return nil, err
	}
	return f, nil
}
