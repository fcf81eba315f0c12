package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// Reserve is the free space, in bytes, that storage leaves on its file system. Below it no series are written.
const Reserve = 16 << 20

// Space returns the free bytes at a directory, which may not exist yet, and the bytes of its files.
func Space(dir string) (free, used int64, err error) {
	used, _ = fileutil.DirSize(dir) // without unreadable files
	for at := dir; ; at = filepath.Dir(at) {
		if free, err = Free(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return free, used, err
		}
	}
}

// FullError means that a file system has too little room.
type FullError struct {
	Dir        string
	Free, Need int64 // bytes
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of %s is full: %d MiB are free, %d MiB are needed; it goes on by itself once there is room", e.Dir, e.Free>>20, (e.Need+1<<20-1)>>20)
}

// hasRoom returns an error if less than Reserve is free. If the free space is unknown, the write decides.
func (s *Store) hasRoom() error {
	if free, err := s.free(s.dir); err == nil && free < Reserve {
		return &FullError{s.dir, free, Reserve}
	}
	return nil
}
