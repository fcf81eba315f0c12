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
)

func openOutbox(t *testing.T, dir string) *Outbox {
	t.Helper()
	o, err := OpenOutbox(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.file.Close() })
	return o
}

// advice is a decision that is worth telling for a while from now.
func advice(pool string, generation int64, life time.Duration) Pending {
	tick := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).Add(time.Duration(generation) * time.Minute)
	return Pending{Notice: alerting.Notice{Decision: &alerting.Decision{Pool: pool, Generation: generation, Tick: tick, Expires: tick.Add(15 * time.Minute)}},
		Expires: time.Now().Add(life).UTC().Truncate(time.Second)}
}

func raised(pool string, minute int) Pending {
	at := time.Date(2026, 3, 2, 12, minute, 0, 0, time.UTC)
	return Pending{Notice: alerting.Notice{Alert: &alerting.Alert{Name: alerting.SaturationAhead, Labels: map[string]string{"pool": pool},
		Annotations: map[string]string{"summary": "KV memory full in ~19 min"}, StartsAt: at, UpdatedAt: at, EndsAt: at.Add(4 * time.Minute)}},
		Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Second)}
}

// TestOutboxSurvives: whatever way it ends, what was not dealt with and has not expired is there again, once.
func TestOutboxSurvives(t *testing.T) {
	dir := t.TempDir()
	o := openOutbox(t, dir)
	if !o.Announced().IsZero() || o.Pending() != nil {
		t.Errorf("a new outbox holds %v from %s", o.Pending(), o.Announced())
	}
	first, second := advice("a", 1, time.Hour), advice("a", 2, time.Hour)
	lapsed, other := advice("b", 1, -time.Second), raised("c", 1)
	for i, notices := range [][]Pending{{first, lapsed}, {second, other}} {
		if err := o.Announce(first.Notice.Decision.Tick.Add(time.Duration(i)*time.Minute), notices); err != nil {
			t.Fatal(err)
		}
	}
	o.Settle("webhook", "decision/a", "a-2")
	// Neither synced nor closed: the process died.
	o = openOutbox(t, dir)
	if diff := cmp.Diff([]Pending{other, second}, o.Pending()); diff != "" {
		t.Error(diff)
	}
	if want := second.Notice.Decision.Tick; !o.Announced().Equal(want) {
		t.Errorf("announced up to %s, want %s", o.Announced(), want)
	}
	for sink, want := range map[string]string{"webhook": "a-2", "nats": ""} {
		if got := o.Settled(sink, "decision/a"); got != want {
			t.Errorf("%s has dealt with %q, want %q", sink, got, want)
		}
	}
	if err := errors.Join(o.Sync(), o.Close()); err != nil {
		t.Error(err)
	}
}

// TestOutboxDamage cuts the file all along, and changes bytes all along: what is whole before is taken up, and the outbox
// goes on.
func TestOutboxDamage(t *testing.T) {
	dir := t.TempDir()
	o := openOutbox(t, dir)
	begin := o.size
	if err := o.Announce(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), []Pending{raised("a", 0)}); err != nil {
		t.Fatal(err)
	}
	o.Settle("nats", "alert/x", "x@1")
	whole, err := os.ReadFile(o.path)
	if err != nil {
		t.Fatal(err)
	}
	for at := begin; at < int64(len(whole)); at += 11 { // each opening waits for the disk
		flipped := bytes.Clone(whole)
		flipped[at] ^= 0x40
		for what, data := range map[string][]byte{"cut": whole[:at], "changed": flipped} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, outboxFile), data, 0o600); err != nil {
				t.Fatal(err)
			}
			o, err := OpenOutbox(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatalf("%s at byte %d: %v", what, at, err)
			}
			if o.Settled("nats", "alert/x") != "" {
				t.Errorf("%s at byte %d: what follows the damage is believed", what, at)
			}
			o.Settle("nats", "alert/y", "y@1")
			o.Close()
			if o = openOutbox(t, dir); o.Settled("nats", "alert/y") != "y@1" {
				t.Errorf("%s at byte %d: the outbox does not go on", what, at)
			}
			o.Close()
		}
	}
	if err := os.WriteFile(o.path, []byte("forewarm journal 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOutbox(dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("another kind of file is taken for an outbox")
	}
}

// TestOutboxIsBounded: however long it is used, file and memory stay within their bounds.
func TestOutboxIsBounded(t *testing.T) {
	dir := t.TempDir()
	o := openOutbox(t, dir)
	var notices []Pending
	for i := range 300 {
		notices = append(notices, raised(fmt.Sprint(i), 0))
	}
	most := int64(0)
	for tick := range 40 {
		if err := o.Announce(time.Date(2026, 3, 2, 12, tick, 0, 0, time.UTC), notices); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(o.path)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, info.Size())
	}
	if live := int64(300 * 400); most > outboxSlack+6*live {
		t.Errorf("the file had %d bytes", most)
	}
	for i := range settledMost + 10 {
		o.take(&outboxRecord{Settled: []settlement{{"nats", fmt.Sprint(i), "x", int64(i)}}})
		o.trim()
	}
	if len(o.settled) > settledMost || o.Settled("nats", "5") != "" || o.Settled("nats", fmt.Sprint(settledMost+9)) == "" {
		t.Errorf("%d deliveries are remembered, and the oldest should go first", len(o.settled))
	}
	for i := range pendingMost + 10 {
		o.take(&outboxRecord{Notices: []Pending{raised(fmt.Sprint("more", i), 0)}})
	}
	if n := len(o.Pending()); n != pendingMost {
		t.Errorf("%d wait, want %d", n, pendingMost)
	}
}

// failing is a file on a disk that is full.
type failing struct{ file }

func (failing) Write([]byte) (int, error) { return 3, errors.New("no space left on device") }

// TestOutboxFullDisk: what could not be written is made up for by the next write.
func TestOutboxFullDisk(t *testing.T) {
	dir := t.TempDir()
	o := openOutbox(t, dir)
	good := o.file
	o.file = failing{good}
	tick := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	if err := o.Announce(tick, []Pending{raised("a", 0)}); err == nil || o.Failures() != 1 {
		t.Errorf("error %v, %d failures", err, o.Failures())
	}
	o.Settle("nats", "alert/y", "y@1") // writes the file anew, and so succeeds
	o = openOutbox(t, dir)
	if len(o.Pending()) != 1 || !o.Announced().Equal(tick) || o.Settled("nats", "alert/y") == "" {
		t.Errorf("%d wait from %s", len(o.Pending()), o.Announced())
	}
}

func FuzzOutbox(f *testing.F) {
	dir := f.TempDir()
	o, err := OpenOutbox(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	o.Announce(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), []Pending{raised("a", 0), advice("b", 1, time.Hour)})
	o.Settle("nats", "alert/x", "x@1")
	o.Close()
	seed, err := os.ReadFile(o.path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(outboxMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, outboxFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := OpenOutbox(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		want := o.Pending()
		o.Close()
		again, err := OpenOutbox(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if len(again.Pending()) != len(want) { // times lose nothing, so only those that expired meanwhile could differ
			t.Errorf("%d wait, then %d", len(want), len(again.Pending()))
		}
		again.Close()
	})
}
