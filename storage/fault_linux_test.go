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

// TestStoreOnAFullDisk fills a real file system at several places in the write-ahead log and the chunks. The store
// reports the full disk, continues when there is room, and keeps what it stored, also over a restart.
func TestStoreOnAFullDisk(t *testing.T) {
	const filled, freed, end = 130, 260, 400
	for _, leave := range []int64{0, 4 << 10, 20 << 10, 36 << 10, 100 << 10, 260 << 10} {
		t.Run(fmt.Sprintf("%d kB", leave>>10), func(t *testing.T) {
			dir := testenv.SmallDisk(t, 32<<20)
			s := openStore(t, config(dir))
			s.free = func(string) (int64, error) { return math.MaxInt64, nil } // so that the store does not stop before the disk is full
			ballast := filepath.Join(dir, "ballast")
			stored, lost := map[int]bool{}, 0
			for m := 1; m <= end; m++ {
				var err error
				switch m {
				case filled:
					var room int64
					if room, err = Free(dir); err == nil {
						err = os.WriteFile(ballast, make([]byte, max(0, room-leave)), 0o600)
					}
				case freed:
					err = os.Remove(ballast)
				}
				if err != nil {
					t.Fatal(err)
				}
				err = tryTick(s, m)
				s.maintaining <- struct{}{} // waits for a compaction that the tick has begun
				<-s.maintaining
				if stored[m] = err == nil; err != nil {
					lost++
				}
				if m > freed+2 && err != nil {
					t.Fatalf("minute %d, with free space again: %v", m, err)
				}
			}
			if c := s.Counters(); c.LostTicks != uint64(lost) || lost == 0 {
				t.Errorf("%d ticks failed, counters are %+v; want LostTicks equal, and more than 0", lost, c)
			}
			for _, when := range []string{"before", "after"} {
				have := " " + strings.Join(desired(t, s), " ") + " "
				for m := 1; m <= end; m++ {
					if stored[m] && !strings.Contains(have, fmt.Sprintf(" %d=%d ", m, 3+m%2)) {
						t.Fatalf("%s the restart minute %d is missing: %s", when, m, have)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openStore(t, config(dir))
				if _, err := os.Stat(filepath.Join(dir, "tsdb.damaged")); err == nil {
					t.Error("the database was damaged")
				}
			}
		})
	}
}

// TestReadOnlyDisk: nothing starts. Each error names the file that could not be written, and none says that the
// directory is in use.
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
