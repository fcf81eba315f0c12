package storage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
)

var (
	quiet = slog.New(slog.DiscardHandler)
	start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
)

func decision(minute int, pool string) *alerting.Decision {
	return &alerting.Decision{
		Pool: pool, Tick: start.Add(time.Duration(minute) * time.Minute), Sequence: uint64(minute * 10),
		Action: alerting.Hold, Ready: 3, Desired: 3 + minute%2, Probability: 0.25,
		Expires: start.Add(time.Duration(minute)*time.Minute + 1500*time.Millisecond),
		ETA:     forecaster.ETA{P10: time.Minute, P50: forecaster.Never, P90: forecaster.Never},
		Reason:  "demand fits",
	}
}

func openJournal(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := OpenJournal(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func appendMinutes(t *testing.T, j *Journal, from, to int) {
	t.Helper()
	for m := from; m < to; m++ {
		for _, pool := range []string{"a", "b"} {
			if err := j.Append(decision(m, pool)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func readAll(t *testing.T, j *Journal, from, to time.Time) (out []string) {
	t.Helper()
	err := j.Read(from, to, func(d *alerting.Decision) error {
		out = append(out, positionOf(d).String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func digest(t *testing.T, j *Journal) string {
	t.Helper()
	d, err := j.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", d)
}

func TestJournalReadsBackWhatWasAppended(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	appendMinutes(t, j, 0, 3)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, dir)
	var got []*alerting.Decision
	err := j.Read(start, start.Add(time.Hour), func(d *alerting.Decision) error {
		c := *d
		got = append(got, &c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []*alerting.Decision
	for m := range 3 {
		want = append(want, decision(m, "a"), decision(m, "b"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if at, ok := j.Last(); !ok || at.Compare(positionOf(decision(2, "b"))) != 0 {
		t.Errorf("last is %v", at)
	}
	if got := readAll(t, j, start.Add(time.Minute), start.Add(2*time.Minute)); len(got) != 2 {
		t.Errorf("interval gives %v", got)
	}
}

func TestJournalSegments(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	j.limit = 2000
	appendMinutes(t, j, 0, 40)
	one := digest(t, j)
	if len(j.segments) < 4 {
		t.Fatalf("%d segments", len(j.segments))
	}
	_ = j.Close()

	j = openJournal(t, dir)
	j.limit = 2000
	if at, _ := j.Last(); at.Compare(positionOf(decision(39, "b"))) != 0 {
		t.Errorf("last is %v", at)
	}
	appendMinutes(t, j, 0, 41) // a replay from the very beginning, and one minute more
	if diff := cmp.Diff(JournalCounters{Appended: 2, Repeated: 80}, j.Counters()); diff != "" {
		t.Error(diff)
	}

	whole := openJournal(t, t.TempDir())
	appendMinutes(t, whole, 0, 40)
	if digest(t, whole) != one {
		t.Error("the digest depends on segments")
	}

	before := start.Add(20 * time.Minute)
	if err := j.Prune(before); err != nil {
		t.Fatal(err)
	}
	left := readAll(t, j, time.Time{}, start.Add(time.Hour))
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != len(j.segments) {
		t.Errorf("%d files for %d segments", len(files), len(j.segments))
	}
	if len(left) >= 82 || len(left) < 42 || left[len(left)-1] != "b at 2026-03-02T00:40:00Z" {
		t.Errorf("after pruning %d decisions are left, the last %s", len(left), left[len(left)-1])
	}
}

func TestJournalReplay(t *testing.T) {
	changed := func(minute int, pool string) *alerting.Decision {
		d := decision(minute, pool)
		d.Desired = 99
		return d
	}
	for name, c := range map[string]struct {
		replay []*alerting.Decision
		want   JournalCounters
	}{
		"the same":           {[]*alerting.Decision{decision(3, "a"), decision(3, "b"), decision(4, "a"), decision(4, "b"), decision(5, "a")}, JournalCounters{Repeated: 4, Appended: 1}},
		"one differs":        {[]*alerting.Decision{decision(3, "a"), changed(3, "b"), decision(4, "a")}, JournalCounters{Repeated: 2, Divergent: 1}},
		"first differs":      {[]*alerting.Decision{changed(2, "b"), decision(3, "a")}, JournalCounters{Repeated: 1, Divergent: 1}},
		"one left out":       {[]*alerting.Decision{decision(3, "a"), decision(4, "a"), decision(4, "b")}, JournalCounters{Repeated: 3, Divergent: 1}},
		"one more":           {[]*alerting.Decision{decision(3, "a"), decision(3, "aa"), decision(3, "b")}, JournalCounters{Repeated: 2, Divergent: 1}},
		"before the journal": {[]*alerting.Decision{decision(-1, "a"), decision(0, "a")}, JournalCounters{Unverified: 1, Repeated: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := openJournal(t, dir)
			appendMinutes(t, j, 0, 5)
			_ = j.Close()
			j = openJournal(t, dir)
			before := digest(t, j)
			for _, d := range c.replay {
				if err := j.Append(d); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.want, j.Counters()); diff != "" {
				t.Error(diff)
			}
			if c.want.Appended == 0 && digest(t, j) != before {
				t.Error("a replay changed the journal")
			}
		})
	}
}

// A crash can leave any prefix of the last write, and a loss of power any bytes in it: at every length and for every
// garbled byte of the last record the journal opens with exactly the records before it, keeps what it cut, and goes on.
func TestJournalTornAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	appendMinutes(t, j, 0, 2)
	whole := j.segments[0].size
	_ = j.Close()
	path := filepath.Join(dir, "journal-000001.log")
	intact, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lastRecord := whole - int64(len(appendRecord(nil, mustEncode(t, decision(1, "b")))))

	check := func(t *testing.T, file []byte, wantLeft int) {
		t.Helper()
		dir := t.TempDir()
		path := filepath.Join(dir, "journal-000001.log")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(dir, quiet)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if got := readAll(t, j, start, start.Add(time.Hour)); len(got) != wantLeft {
			t.Fatalf("%d decisions left, want %d", len(got), wantLeft)
		}
		if cut := j.Counters().CutBytes; cut > 0 {
			kept, err := os.ReadFile(path + cutSuffix)
			if err != nil || uint64(len(kept)) != cut || !bytes.HasSuffix(file, kept) {
				t.Fatalf("%d bytes kept of %d cut (%v)", len(kept), cut, err)
			}
		}
		appendMinutes(t, j, 0, 3)
		if got := readAll(t, j, start, start.Add(time.Hour)); len(got) != 6 {
			t.Fatalf("after the replay: %v", got)
		}
	}
	for size := int64(0); size <= whole; size++ {
		left := 0
		switch {
		case size == whole:
			left = 4
		case size >= lastRecord:
			left = 3
		case size > int64(len(journalMagic)):
			continue // a cut inside an earlier record is the same case
		}
		check(t, intact[:size], left)
	}
	for at := lastRecord; at < whole; at++ {
		garbled := bytes.Clone(intact)
		garbled[at] ^= 0x5a
		check(t, garbled, 3)
	}
	check(t, append(bytes.Clone(intact), make([]byte, 4096)...), 4) // a file system's zeros
}

func TestJournalRefusesWhatIsNotItsOwn(t *testing.T) {
	foreign := appendRecord([]byte(journalMagic), []byte("\x63abc"))
	good := appendRecord([]byte(journalMagic), mustEncode(t, decision(0, "a")))
	garbled := bytes.Clone(good)
	garbled[len(garbled)-1]++
	for name, files := range map[string]map[int][]byte{
		"another file":            {1: []byte("#!/bin/sh\necho hello, this is no journal\n")},
		"another short file":      {1: []byte("x")},
		"intact but no decision":  {1: foreign},
		"older segment damaged":   {1: garbled, 2: good},
		"older segment truncated": {1: good[:5], 2: []byte(journalMagic)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for n, b := range files {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("journal-%06d.log", n)), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := OpenJournal(dir, quiet)
			if err == nil {
				t.Fatal("opened")
			}
			if !bytes.Contains([]byte(err.Error()), []byte("journal-000001.log")) || !bytes.Contains([]byte(err.Error()), []byte("move it away")) {
				t.Errorf("the error names neither file nor mend: %v", err)
			}
		})
	}
}

// A crash right after a segment was made leaves it empty: the last position is in the segment before.
func TestJournalEmptyNewestSegment(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	appendMinutes(t, j, 0, 3)
	_ = j.Close()
	if err := os.WriteFile(filepath.Join(dir, "journal-000002.log"), []byte(journalMagic), 0o600); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, dir)
	appendMinutes(t, j, 1, 4)
	if diff := cmp.Diff(JournalCounters{Appended: 2, Repeated: 4}, j.Counters()); diff != "" {
		t.Error(diff)
	}
}

// What the disk does not take waits, up to a bound: an outage shorter than that loses nothing, one that is longer loses the
// oldest, and counts them. No snapshot may be taken meanwhile.
func TestJournalOutage(t *testing.T) {
	for name, c := range map[string]struct{ minutes, lost int }{"short": {100, 0}, "long": {9000, 1}} {
		d, dir := newFaultyDisk(), t.TempDir()
		j, err := newJournal(d, dir, quiet)
		if err != nil {
			t.Fatal(err)
		}
		appendMinutes(t, j, 0, 1)
		d.at, d.count, d.how = d.n+1, 1<<30, failed
		for m := 1; m < c.minutes; m++ {
			if j.Append(decision(m, "a")) == nil || j.Sync() == nil {
				t.Fatalf("%s: minute %d is taken", name, m)
			}
		}
		d.count = 0
		if err := errors.Join(j.Sync(), j.Append(decision(c.minutes, "a"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		counted := j.Counters()
		if (counted.Lost > 0) != (c.lost > 0) || counted.Waiting != 0 || counted.Appended+counted.Lost != uint64(c.minutes+2) {
			t.Errorf("%s: %+v", name, counted)
		}
		got := readAll(t, j, time.Time{}, start.AddDate(1, 0, 0))
		if uint64(len(got)) != counted.Appended || got[0] != "a at 2026-03-02T00:00:00Z" || got[len(got)-1] != positionOf(decision(c.minutes, "a")).String() {
			t.Errorf("%s: %d are there, up to %s", name, len(got), got[len(got)-1])
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzRecordReader(f *testing.F) {
	f.Add(appendRecord([]byte(journalMagic), []byte("payload")))
	f.Add([]byte(journalMagic + "\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Add([]byte("forewarm"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := newRecordReader(bytes.NewReader(b), journalMagic)
		again := []byte(journalMagic)
		for err == nil {
			var payload []byte
			if payload, err = r.next(); err == nil {
				again = appendRecord(again, payload)
			}
		}
		if r.offset > 0 && !bytes.Equal(b[:r.offset], again) {
			t.Errorf("what was read up to byte %d is not what a writer makes", r.offset)
		}
	})
}

func mustEncode(t *testing.T, d *alerting.Decision) []byte {
	t.Helper()
	b, err := encodeDecision.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFind looks decisions up by what users have in hand: an event's id, its evidence, a pool.
func TestFind(t *testing.T) {
	j := openJournal(t, t.TempDir())
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	first := start.Unix() / 60
	for minute := range 120 {
		for _, pool := range []string{"a-1", "b"} {
			d := alerting.Decision{Pool: pool, Tick: start.Add(time.Duration(minute) * time.Minute), Generation: first + int64(minute/10), Publish: minute%10 == 0}
			if err := j.Append(&d); err != nil {
				t.Fatal(err)
			}
		}
	}
	for ref, want := range map[string]struct{ minute, after int }{
		fmt.Sprintf("a-1-%d", first):                                   {0, 60},
		fmt.Sprintf("a-1-%d", first+7):                                 {70, 49},
		"b@" + start.Add(33*time.Minute).Format(time.RFC3339) + "#918": {33, 60},
		"b":   {119, 0},
		"a-1": {119, 0}, // a pool whose name looks like an id
	} {
		d, after, err := j.Find(ref, time.Hour)
		if err != nil || !d.Tick.Equal(start.Add(time.Duration(want.minute)*time.Minute)) || len(after) != want.after {
			t.Errorf("%s: minute %s, %d after it, %v; want %d and %d", ref, d.Tick.Sub(start), len(after), err, want.minute, want.after)
		}
		for i := range after {
			if after[i].Pool != d.Pool || !after[i].Tick.After(d.Tick) {
				t.Errorf("%s: %s of %s follows", ref, after[i].Tick, after[i].Pool)
			}
		}
	}
	for _, ref := range []string{"", "c", "b-1", fmt.Sprintf("b-%d", first+500), "b@2026-03-02T12:00:30Z", "@", "-"} {
		if _, _, err := j.Find(ref, time.Hour); !errors.Is(err, ErrNoDecision) {
			t.Errorf("%q: error %v", ref, err)
		}
	}
}
