package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// desired has the samples of desired replicas. Each tick of appendTick adds one.
func desired(t *testing.T, s *Store) []string {
	t.Helper()
	return dump(t, s, "forewarm_desired_replicas")[`{__name__="forewarm_desired_replicas", pool="p", role="all"}`]
}

// ticksIn are the minutes of the stored ticks of appendTick.
func ticksIn(t *testing.T, s *Store) []string {
	t.Helper()
	var out []string
	for _, x := range desired(t, s) {
		at, _, _ := strings.Cut(x, "=")
		out = append(out, at)
	}
	return out
}

// TestStoreTornLog cuts and corrupts the write-ahead log at many places, as a power failure may. The store opens with
// the ticks before the damage.
func TestStoreTornLog(t *testing.T) {
	whole := t.TempDir()
	s := openStore(t, config(whole))
	var ends []int64 // size of the log after each tick
	for m := 1; m <= 6; m++ {
		appendTick(t, s, m)
		info := must(os.Stat(filepath.Join(whole, "tsdb", "wal", "00000000")))
		ends = append(ends, info.Size())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	size := ends[len(ends)-1]
	for at := size / 23; at < size; at += size / 23 {
		for _, how := range []string{"cut", "corrupt"} {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "tsdb", "wal", "00000000")
			b := must(os.ReadFile(path))
			if how == "cut" {
				b = b[:at]
			} else {
				b[at] ^= 0x55
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s := openStore(t, config(dir))
			var want []string
			for i, end := range ends {
				if end <= at {
					want = append(want, fmt.Sprint(i+1))
				}
			}
			got := ticksIn(t, s)
			if diff := cmp.Diff(want, got); diff != "" && (len(got) != len(want)+1 || got[len(want)] != fmt.Sprint(len(want)+1)) { // the next tick may be there in part
				t.Errorf("%s at byte %d: %s", how, at, diff)
			}
			appendTick(t, s, 7)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, config(dir))
			if again := ticksIn(t, s); len(again) != len(got)+1 {
				t.Errorf("%s at byte %d: %v, and after another tick and restart %v", how, at, got, again)
			}
			_ = s.Close()
		}
	}
}

// TestStoreDamaged: if a block cannot be opened, the database is renamed, and a new one is opened.
func TestStoreDamaged(t *testing.T) {
	for file, tt := range map[string]struct {
		change  func(b []byte) []byte
		ticks   int // including one that is stored afterwards
		renamed bool
	}{
		"tsdb/*/index":     {func(b []byte) []byte { return b[:len(b)-3] }, 1, true},
		"tsdb/*/meta.json": {func([]byte) []byte { return nil }, 5, false}, // the TSDB skips the block, and the log has its ticks
	} {
		dir := t.TempDir()
		fillDirectory(t, dir)
		path := one(t, dir, file)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, tt.change(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := openStore(t, config(dir))
		appendTick(t, s, 7)
		if got := ticksIn(t, s); len(got) != tt.ticks {
			t.Errorf("%s: ticks %v, want %d", file, got, tt.ticks)
		}
		if tt.renamed {
			one(t, dir, "tsdb.damaged/*/index")
		} else if _, err := os.Stat(filepath.Join(dir, "tsdb.damaged")); err == nil {
			t.Errorf("%s: the database is renamed", file)
		}
		_ = s.Close()
	}
}
