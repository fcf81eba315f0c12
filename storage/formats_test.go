package storage

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

var updatePages = flag.Bool("update", false, "write the dumps in the pages on formats anew")

// A part of a file, for people: what its next bytes are.
type part struct {
	bytes int
	means string
}

// examples makes one small file of each format and says what its bytes are; page is where that is shown.
func examples(t *testing.T) map[string]struct {
	file  []byte
	parts []part
} {
	t.Helper()
	dir := t.TempDir()
	d := alerting.Decision{Pool: "chat", Tick: start, Sequence: 7, Action: alerting.Hold, Ready: 3, Desired: 3, Reason: "demand fits"}
	j, err := OpenJournal(filepath.Join(dir, "journal"), quiet)
	if err == nil {
		err = errors.Join(j.Append(&d), j.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	o := openOutbox(t, filepath.Join(dir, "outbox"))
	notice := alerting.Pending{Notice: alerting.Notice{Alert: &alerting.Alert{Name: alerting.Watchdog, Labels: map[string]string{"severity": "none"}, StartsAt: start, UpdatedAt: start, EndsAt: start.Add(5 * time.Minute)}}, Expires: start.AddDate(200, 0, 0)}
	if err := errors.Join(o.Announce(start, []alerting.Pending{notice}), o.Close()); err != nil {
		t.Fatal(err)
	}
	s := openSnapshots(t, filepath.Join(dir, "snapshots"))
	if _, err := s.Save(Stream{Name: "telemetry", Created: start}, 42, exactly([]byte("the state"))); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	all := map[string]struct {
		file  []byte
		parts []part
	}{}
	for page, c := range map[string]struct{ file, magic, payload string }{
		"journal.md": {"journal/journal-000001.log", journalMagic, "payload: the decision"},
		"outbox.md":  {"outbox/outbox.log", outboxMagic, "payload"},
	} {
		b := read(c.file)
		parts := []part{{len(c.magic), "first line"}}
		r, err := newRecordReader(bytes.NewReader(b), c.magic)
		for err == nil {
			var payload []byte
			if payload, err = r.next(); err == nil {
				parts = append(parts, part{4, "length of the payload"}, part{4, "CRC-32C of the payload"}, part{len(payload), c.payload})
			}
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		all[page] = struct {
			file  []byte
			parts []part
		}{b, parts}
	}
	all["snapshot.md"] = struct {
		file  []byte
		parts []part
	}{read("snapshots/snapshot-000000001.fws"), []part{
		{8, "magic"}, {4, "version"}, {8, "sequence"}, {8, "creation of the stream"}, {2, "length of its name"}, {9, "its name"},
		{9, "payload: the state"}, {8, "length of the payload"}, {32, "SHA-256 of the payload"}, {4, "CRC-32C of all but the payload"},
	}}
	return all
}

// dumped shows bytes sixteen a line, and what they are.
func dumped(file []byte, parts []part) string {
	var out strings.Builder
	at := 0
	for _, p := range parts {
		for i := 0; i < p.bytes; i += 16 {
			line := file[at+i : at+min(i+16, p.bytes)]
			text := strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return '.'
				}
				return r
			}, latin(line))
			row := fmt.Sprintf("%04x  %-47s  %-16s", at+i, strings.TrimRight(fmt.Sprintf("% x", line), " "), text)
			if i == 0 {
				row += "  " + p.means
			}
			out.WriteString(strings.TrimRight(row, " ") + "\n")
		}
		at += p.bytes
	}
	if at != len(file) {
		fmt.Fprintf(&out, "%d bytes more: %s\n", len(file)-at, hex.EncodeToString(file[at:]))
	}
	return out.String()
}

func latin(b []byte) string {
	r := make([]rune, len(b))
	for i := range b {
		r[i] = rune(b[i])
	}
	return string(r)
}

// TestFormatPages holds the dumps in the pages on formats to what is written today; -update writes them anew.
func TestFormatPages(t *testing.T) {
	for page, x := range examples(t) {
		begin := "```\n"
		text, err := os.ReadFile(filepath.Join("formats", page))
		if err != nil {
			t.Fatal(err)
		}
		before, after, ok := strings.Cut(string(text), begin)
		if !ok {
			t.Fatalf("%s has no dump that begins with %q", page, begin)
		}
		got, rest, _ := strings.Cut(after, "```\n")
		want := dumped(x.file, x.parts)
		if *updatePages {
			if err := os.WriteFile(filepath.Join("formats", page), []byte(before+begin+want+"```\n"+rest), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if got != want {
			t.Errorf("%s shows\n%sand written is\n%s(go test ./storage -run TestFormatPages -update)", page, got, want)
		}
	}
}

// TestNewerFormats: what a newer forewarm wrote is refused, by the file's name and with the mend, and left as it is; a
// verification says the same.
func TestNewerFormats(t *testing.T) {
	snapshot := encoded(t, 1)
	snapshot[len(snapshotMagic)] = snapshotVersion + 1
	newer := func(magic string) []byte { return []byte(strings.Replace(magic, " 1\n", " 2\n", 1) + "what is new") }
	for file, c := range map[string]struct {
		content []byte
		open    func(dir string) error
	}{
		"journal/journal-000001.log":       {newer(journalMagic), func(dir string) error { _, err := OpenJournal(dir, quiet); return err }},
		"outbox/outbox.log":                {newer(outboxMagic), func(dir string) error { _, err := OpenOutbox(dir, quiet); return err }},
		"snapshots/snapshot-000000001.fws": {snapshot, func(dir string) error { _, err := openSnapshots(t, dir).Load(stream); return err }},
		"tsdb/01M80W1VQ93XR9EJKFDKJQAZJ9/meta.json": {[]byte(`{"version": 2, "ulid": "01M80W1VQ93XR9EJKFDKJQAZJ9"}`), func(dir string) error {
			_, err := OpenStore(config(filepath.Dir(filepath.Dir(dir))), slog.New(slog.DiscardHandler))
			return err
		}},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, c.content, 0o600)); err != nil {
			t.Fatal(err)
		}
		err := c.open(filepath.Dir(path))
		if err == nil {
			t.Errorf("%s is taken", file)
			continue
		}
		name := strings.TrimSuffix(path, "/meta.json")
		if !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "this forewarm reads") || !strings.Contains(err.Error(), "run the version that wrote it") {
			t.Errorf("%s: %v", file, err)
		}
		if got, details := findings(t, dir, true); len(got) != 1 || !strings.HasPrefix(got[0], "damaged") || !strings.Contains(details, "run the version that wrote it") {
			t.Errorf("%s, verified: %v %s", file, got, details)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, c.content) {
			t.Errorf("%s is not what it was (%v)", file, err)
		}
	}
}
