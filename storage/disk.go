package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Reserve is the space, in bytes, that storage leaves to others on its file system: no series are written where less would be left.
const Reserve = 16 << 20

// Space is what is free where a directory is, or will be, and what the files in it take, in bytes.
func Space(dir string) (free, used int64, err error) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if i, err := e.Info(); err == nil {
				used += i.Size()
			}
		}
		return nil //nolint:nilerr // what cannot be read is not counted
	})
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
