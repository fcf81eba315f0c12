package storage

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/forewarm/forewarm/alerting"
)

// fixture makes a new data directory of today's formats: go test ./storage -run TestFixture -fixture testdata/vN, when a
// format gets version N. Those that are there stay as they are: they are what older daemons left.
var fixture = flag.String("fixture", "", "write a new fixture into this `directory`")

var fixtureStream = Stream{Name: "telemetry", Created: start}

// fillDirectory makes a small data directory, with a block, and closes it.
func fillDirectory(t *testing.T, dir string) {
	t.Helper()
	s, j := openStore(t, config(dir)), openJournal(t, filepath.Join(dir, "journal"))
	for m := 1; m <= 3; m++ {
		appendTick(t, s, m)
		for _, pool := range []string{"a", "b"} {
			if err := j.Append(decision(m, pool)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.db.CompactHead(tsdb.NewRangeHead(s.db.Head(), math.MinInt64, minute(2).UnixMilli())); err != nil {
		t.Fatal(err)
	}
	appendTick(t, s, 4)
	o, err := OpenOutbox(filepath.Join(dir, "outbox"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	err = o.Announce(minute(3), []Pending{{Notice: alerting.Notice{Decision: decision(3, "a")}, Expires: start.AddDate(200, 0, 0)}})
	if err = errors.Join(err, WriteReported(dir, minute(3)), s.Close(), j.Close(), o.Close()); err != nil {
		t.Fatal(err)
	}
	snaps, err := OpenSnapshots(filepath.Join(dir, "snapshots"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		_, err := snaps.Save(fixtureStream, uint64(41+i), func(w io.Writer) error {
			_, err := io.WriteString(w, "the state of the fold")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// findings of a directory, "condition path" each, with what they say.
func findings(t *testing.T, dir string, repair bool) (conditions []string, details string) {
	t.Helper()
	err := Verify(t.Context(), dir, repair, func(f Finding) {
		path := f.Path
		if name, ok := strings.CutPrefix(path, "tsdb/"); ok && len(name) == ulid.EncodedSize {
			path = "tsdb/block"
		}
		conditions = append(conditions, string(f.Condition)+" "+path)
		details += f.Path + ": " + f.Detail + "\n"
	})
	if err != nil {
		t.Fatal(err)
	}
	return conditions, details
}

// sound is what is found in a directory of fillDirectory.
var sound = []string{
	"sound journal/journal-000001.log", "sound outbox/outbox.log", "sound snapshots/snapshot-000000001.fws", "sound snapshots/snapshot-000000002.fws",
	"sound tsdb/block", "sound tsdb/chunks_head", "sound tsdb/wal", "sound tsdb/wbl", "sound reported.json",
}

func TestVerifySound(t *testing.T) {
	dir := t.TempDir()
	fillDirectory(t, dir)
	before := filesOf(t, dir)
	got, details := findings(t, dir, false)
	if diff := cmp.Diff(sound, got); diff != "" {
		t.Error(diff, details)
	}
	for _, want := range []string{
		"6 decisions, 2026-", "state of 21 bytes at sequence 42 of stream telemetry", fmt.Sprintf("log of %d series, %d samples", samplesPerTick, 4*samplesPerTick),
	} {
		if !strings.Contains(details, want) {
			t.Errorf("nothing says %q:\n%s", want, details)
		}
	}
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("a verification has changed something: %s", diff)
	}
}

// filesOf gives the bytes of every file below a directory.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Every kind of damage is found in its place; the repair loses no more than what follows it in the file, keeps a copy, and
// leaves a directory that opens and verifies.
func TestVerifyDamage(t *testing.T) {
	flip := func(b []byte) []byte { b[len(b)/2] ^= 0x40; return b }
	cut := func(b []byte) []byte { return b[:len(b)-3] }
	for name, c := range map[string]struct {
		file   string // a pattern
		change func([]byte) []byte
		found  string
		after  string // in place of found, once repaired; "" where the thing is gone
		kept   string // pattern of what a repair puts aside
	}{
		"journal, torn":        {"journal/journal-000001.log", cut, "journal/journal-000001.log", "sound journal/journal-000001.log", "journal/journal-000001.log.cut"},
		"journal, flipped":     {"journal/journal-000001.log", flip, "journal/journal-000001.log", "sound journal/journal-000001.log", "journal/journal-000001.log.cut"},
		"outbox, torn":         {"outbox/outbox.log", cut, "outbox/outbox.log", "sound outbox/outbox.log", "outbox/outbox.log.cut"},
		"snapshot, flipped":    {"snapshots/snapshot-000000001.fws", flip, "snapshots/snapshot-000000001.fws", "", "snapshots/snapshot-000000001.fws.damaged"},
		"snapshot, torn":       {"snapshots/snapshot-000000002.fws", cut, "snapshots/snapshot-000000002.fws", "", "snapshots/snapshot-000000002.fws.damaged"},
		"mark, torn":           {"reported.json", func(b []byte) []byte { return b[:len(b)/2] }, "reported.json", "", "reported.json.damaged"},
		"block, chunks":        {"tsdb/*/chunks/000001", flip, "tsdb/block", "", "tsdb/*.damaged"},
		"block, index":         {"tsdb/*/index", cut, "tsdb/block", "", "tsdb/*.damaged"},
		"block, without index": {"tsdb/*/meta.json", func([]byte) []byte { return nil }, "tsdb/block", "", "tsdb/*.damaged"},
		"log":                  {"tsdb/wal/00000000", flip, "tsdb/wal", "sound tsdb/wal", "tsdb/wal.damaged/00000000"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fillDirectory(t, dir)
			path := one(t, dir, c.file)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.change(b), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				repair bool
				want   string
			}{{false, "damaged " + c.found}, {true, "repaired " + c.found}, {false, c.after}} {
				var want []string
				for _, s := range sound {
					if s == "sound "+c.found {
						s = step.want
					}
					if s != "" {
						want = append(want, s)
					}
				}
				got, details := findings(t, dir, step.repair)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("with repair %v: %s%s", step.repair, diff, details)
				}
			}
			one(t, dir, c.kept)
			openAll(t, dir)
		})
	}
}

// one finds the one file of a pattern.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	return paths[0]
}

// openAll opens a directory as a daemon does.
func openAll(t *testing.T, dir string) (*Store, *Journal, *Snapshot) {
	t.Helper()
	s, j := openStore(t, config(dir)), openJournal(t, filepath.Join(dir, "journal"))
	snaps, err := OpenSnapshots(filepath.Join(dir, "snapshots"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := snaps.Load(fixtureStream)
	if err != nil {
		t.Fatal(err)
	}
	return s, j, snapshot
}

// What no repair can mend is left alone.
func TestVerifyLeavesToPeople(t *testing.T) {
	foreign := append([]byte(journalMagic), appendRecord(nil, []byte("not cbor"))...)
	old := snapshotFile(t)
	old[len(snapshotMagic)] = 1
	for name, c := range map[string]struct {
		file string
		b    []byte
		want string
	}{
		"another file":       {"journal/journal-000001.log", []byte("#!/bin/sh\n"), "first line is"},
		"another version":    {"journal/journal-000001.log", foreign, "not a decision of this version"},
		"out of order":       {"journal/journal-000001.log", backwards(t), "decisions must ascend"},
		"snapshot version 1": {"snapshots/snapshot-000000001.fws", old, "format version 1, this forewarm reads 2: run the version that wrote it"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(c.file))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, c.b, 0o600)); err != nil {
			t.Fatal(err)
		}
		got, details := findings(t, dir, true)
		if diff := cmp.Diff([]string{"damaged " + c.file}, got); diff != "" || !strings.Contains(details, c.want) {
			t.Errorf("%s: %s%s", name, details, diff)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, c.b) {
			t.Errorf("%s: the file is not what it was (%v)", name, err)
		}
	}
}

func backwards(t *testing.T) []byte {
	t.Helper()
	b := appendRecord([]byte(journalMagic), mustEncode(t, decision(1, "a")))
	return appendRecord(b, mustEncode(t, decision(0, "a")))
}

func snapshotFile(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	s := &Snapshot{Stream: fixtureStream, Sequence: 1}
	if err := s.encode(&b, exactly([]byte("state"))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestVerifyBesideADaemon(t *testing.T) {
	dir := t.TempDir()
	fillDirectory(t, dir)
	lock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "journal", "journal-000001.log")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-3], 0o600); err != nil { // a record that is being written
		t.Fatal(err)
	}
	got, _ := findings(t, dir, false)
	want := append([]string{"noted lock", "noted journal/journal-000001.log"}, sound[1:]...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := Verify(t.Context(), dir, true, func(Finding) {}); !errors.Is(err, ErrLocked) {
		t.Errorf("a repair beside a daemon: %v", err)
	}
	_ = lock.Unlock()
	for _, dir := range []string{path, filepath.Join(dir, "nothing"), t.TempDir()} {
		if err := Verify(context.Background(), dir, false, func(Finding) {}); err == nil {
			t.Errorf("%s is no data directory, and passes", dir)
		}
	}
}

// TestFixture reads what the first version of each format left on disk: an upgrade keeps decisions, series and state.
func TestFixture(t *testing.T) {
	if *fixture != "" {
		fillDirectory(t, *fixture)
		t.Skip("written: ", *fixture)
	}
	versions, err := filepath.Glob("testdata/v*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, from := range versions {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		if got, details := findings(t, dir, false); strings.Contains(strings.Join(got, "\n"), string(Damaged)) {
			t.Errorf("%s: %s", from, details)
		}
		s, j, snapshot := openAll(t, dir)
		var got []string
		err := j.Read(start, start.Add(time.Hour), func(d *alerting.Decision) error {
			got = append(got, fmt.Sprintf("%s %d of %d+%d: %s", positionOf(d), d.Desired, d.Ready, d.Pending, d.Reason))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for m := 1; m <= 3; m++ {
			for _, pool := range []string{"a", "b"} {
				d := decision(m, pool)
				want = append(want, fmt.Sprintf("%s %d of %d+%d: %s", positionOf(d), d.Desired, d.Ready, d.Pending, d.Reason))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", from, diff)
		}
		o, err := OpenOutbox(filepath.Join(dir, "outbox"), quiet)
		if err != nil {
			t.Fatal(err)
		}
		if p := o.Pending(); !o.Announced().Equal(minute(3)) || len(p) != 1 || p[0].Notice.Decision.Pool != "a" {
			t.Errorf("%s: announced up to %s, pending %v", from, o.Announced(), p)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		series := dump(t, s, "forewarm_demand_requests_per_second")
		if diff := cmp.Diff([]string{"1=1", "2=2", "3=3", "4=4"}, series[`{__name__="forewarm_demand_requests_per_second", class="chat", pool="p"}`]); diff != "" {
			t.Errorf("%s: %s", from, diff)
		}
		r, err := snapshot.Open()
		if err != nil {
			t.Fatal(err)
		}
		state, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || string(state) != "the state of the fold" || snapshot.Sequence != 42 {
			t.Errorf("%s: state %q at %d, %v", from, state, snapshot.Sequence, err)
		}
	}
}
