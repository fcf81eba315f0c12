package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// ErrLocked means that another process holds a directory.
var ErrLocked = errors.New("in use by another forewarm")

// Lock locks dir for this process, and creates it if needed. The kernel releases the lock when the process dies.
func Lock(dir string) (fileutil.Releaser, error) {
	name := filepath.Join(dir, "lock")
	var lock fileutil.Releaser
	err := os.MkdirAll(dir, 0o750)
	if err == nil {
		lock, _, err = fileutil.Flock(name)
	}
	switch {
	case errors.As(err, new(*os.PathError)):
		return nil, fmt.Errorf("storage directory %s: %w: make it writable, or name another in storage.dir", dir, err)
	case err != nil:
		return nil, fmt.Errorf("storage directory %s is %w (%s: %w): "+
			"stop that one, or name another directory in storage.dir", dir, ErrLocked, name, err)
	}
	return lock, nil
}

// WriteFile writes data to path, and creates its directory if needed. After an error or a power cut path has its old or
// its new content, never a part.
func WriteFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	temporary := path + ".tmp"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fileutil.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // otherwise a full disk stays full
	}
	return err
}

// Reserve is the free space, in bytes, that storage leaves on its file system. Below it no series are written.
const Reserve = 16 << 20

// Free returns the free bytes at a directory.
func Free(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // the types differ between systems
}

// Space returns the free bytes at a directory, which may not exist yet, and the bytes of the files that can be read.
func Space(dir string) (free, used int64, err error) {
	_ = filepath.Walk(dir, func(_ string, file fs.FileInfo, err error) error {
		if err == nil && !file.IsDir() {
			used += file.Size()
		}
		return nil
	})
	for at := dir; ; at = filepath.Dir(at) {
		if free, err = Free(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return free, used, err
		}
	}
}

// FullError means that less than Reserve is free on a file system.
type FullError struct {
	dir  string
	free int64 // bytes
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of %s is full: %d MiB are free, %d MiB are needed; it goes on by itself once there is room",
		e.dir, e.free>>20, Reserve>>20)
}

// HasRoom returns a [FullError] if less than Reserve is free at a directory. free is [Free], or its replacement in a
// test. If the free space is unknown, the write decides.
func HasRoom(dir string, free func(dir string) (bytes int64, err error)) error {
	if bytes, err := free(dir); err == nil && bytes < Reserve {
		return &FullError{dir, bytes}
	}
	return nil
}
