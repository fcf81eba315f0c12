package storage

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

// fill leaves so many bytes free; the returned function frees them.
func fill(t *testing.T, dir string, leave int64) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	at, err := Free(dir)
	if err == nil {
		err = os.WriteFile(path, make([]byte, max(0, at-leave)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// blind does not see how much room there is, so that writes run into the end of it.
func blind(string) (int64, error) { return math.MaxInt64, nil }

// TestStoreOnAFullDisk fills a real file system at several places in the write-ahead log and the chunks. The store
// reports the full disk, continues when there is room, and keeps what it stored, also over a restart.
func TestStoreOnAFullDisk(t *testing.T) {
	const filled, freed, end = 130, 260, 400
	for _, leave := range []int64{0, 4 << 10, 20 << 10, 36 << 10, 100 << 10, 260 << 10} {
		t.Run(fmt.Sprintf("%d kB", leave>>10), func(t *testing.T) {
			dir := testenv.SmallDisk(t, 32<<20)
			s := openStore(t, config(dir))
			s.free, s.retry = blind, 0
			var free func()
			stored, lost := map[int]bool{}, 0
			for m := 1; m <= end; m++ {
				switch m {
				case filled:
					free = fill(t, dir, leave)
				case freed:
					free()
				}
				err := tryTick(s, m)
				s.maintaining <- struct{}{} // whatever the tick has begun is over
				<-s.maintaining
				if stored[m] = err == nil; err != nil {
					lost++
				}
				if m > freed+2 && err != nil {
					t.Fatalf("minute %d: there is room again: %v", m, err)
				}
			}
			if c := s.Counters(); c.LostTicks != uint64(lost) || lost == 0 {
				t.Errorf("%d ticks are lost: %+v", lost, c)
			}
			for _, when := range []string{"before", "after"} {
				have := dump(t, s, "forewarm_desired_replicas")[`{__name__="forewarm_desired_replicas", pool="p", role="all"}`]
				there := strings.Join(have, " ") + " "
				for m := 1; m <= end; m++ {
					if stored[m] && !strings.Contains(" "+there, fmt.Sprintf(" %d=%d ", m, 3+m%2)) {
						t.Fatalf("%s a restart minute %d is missing: %s", when, m, there)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openStore(t, config(dir))
				if c := s.Counters(); c.Corruptions+c.Damaged > 0 {
					t.Errorf("%+v", c)
				}
			}
			t.Logf("%d ticks lost", lost)
		})
	}
}

// TestReadOnlyDisk: nothing starts. Each part names the file that it could not write, and none says that the directory is
// in use.
func TestReadOnlyDisk(t *testing.T) {
	dir := testenv.SmallDisk(t, 64<<20)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() error{
		"":     func() error { _, err := Lock(dir); return err },
		"tsdb": func() error { _, err := OpenStore(config(dir), quiet); return err },
	} {
		err := open()
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), filepath.Join(dir, name)) || errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
