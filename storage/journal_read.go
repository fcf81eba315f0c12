package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/alerting"
)

// Read calls fn with every decision whose tick is in [from, to), in order. The decision is valid during the call. It may
// run while decisions are appended; those that come after the start are not read.
func (j *Journal) Read(from, to time.Time, fn func(*alerting.Decision) error) error {
	var d alerting.Decision
	return j.scan(from, to, func(payload []byte) error {
		d = alerting.Decision{}
		if err := cbor.Unmarshal(payload, &d); err != nil {
			return err
		}
		if d.Tick.Before(from) || !d.Tick.Before(to) {
			return nil
		}
		return fn(&d)
	})
}

// Digest is the SHA-256 of all payloads in order: equal journals, equal digests, whatever their segments.
func (j *Journal) Digest() ([sha256.Size]byte, error) {
	h := sha256.New()
	err := j.scan(time.Time{}, time.Unix(1<<40, 0), func(payload []byte) error {
		h.Write(payload)
		return nil
	})
	return [sha256.Size]byte(h.Sum(nil)), err
}

// scan calls fn with the payloads of all segments that may hold ticks in [from, to).
func (j *Journal) scan(from, to time.Time, fn func(payload []byte) error) error {
	j.mu.Lock()
	segments := slices.Clone(j.segments)
	j.mu.Unlock()
	for i, s := range segments {
		if s.first.Tick.IsZero() || !s.first.Tick.Before(to) {
			break
		}
		if i+1 < len(segments) && !segments[i+1].first.Tick.IsZero() && segments[i+1].first.Tick.Before(from) {
			continue
		}
		if err := j.scanSegment(s, fn); err != nil && !errors.Is(err, os.ErrNotExist) { // pruned meanwhile
			return fmt.Errorf("journal %s: %w", j.path(s.number), err)
		}
	}
	return nil
}

func (j *Journal) scanSegment(s segment, fn func(payload []byte) error) error {
	f, err := os.Open(j.path(s.number))
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := newRecordReader(io.LimitReader(f, s.size), journalMagic)
	if err != nil {
		return err
	}
	for {
		payload, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(payload); err != nil {
			return err
		}
	}
}
