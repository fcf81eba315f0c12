package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// Reserve is the space, in bytes, that storage leaves to others on its file system: no series are written where less would be left.
const Reserve = 16 << 20

// Space is what is free where a directory is, or will be, and what the files in it take, in bytes.
func Space(dir string) (free, used int64, err error) {
	used, _ = fileutil.DirSize(dir) // up to what cannot be read
	for at := dir; ; at = filepath.Dir(at) {
		if free, err = Free(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return free, used, err
		}
	}
}

// FullError says that a file system has no room for what was to be written.
type FullError struct {
	Dir        string
	Free, Need int64 // bytes
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of %s is full: %d MiB are free, %d MiB are needed; it goes on by itself once there is room", e.Dir, e.Free>>20, (e.Need+1<<20-1)>>20)
}

// hasRoom is nil where the reserve is left. Where that cannot be known the write will tell.
func (s *Store) hasRoom() error {
	if free, err := s.free(s.dir); err == nil && free < Reserve {
		return &FullError{s.dir, free, Reserve}
	}
	return nil
}
