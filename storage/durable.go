package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// DirLock is a process's lock on a directory. The kernel releases it when the process dies.
type DirLock struct {
	release fileutil.Releaser
}

// ErrLocked means that another process holds a directory.
var ErrLocked = errors.New("in use by another forewarm")

// Lock locks dir, and creates it if needed. It fails if another process holds it.
func Lock(dir string) (*DirLock, error) {
	name := filepath.Join(dir, "lock")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("storage directory %s: %w: make it writable, or name another in storage.dir", dir, err)
	}
	r, _, err := fileutil.Flock(name)
	if errors.As(err, new(*os.PathError)) {
		return nil, fmt.Errorf("storage directory %s: %w: make it writable, or name another in storage.dir", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("storage directory %s is %w (%s: %w): stop that one, or name another directory in storage.dir", dir, ErrLocked, name, err)
	}
	return &DirLock{release: r}, nil
}

// Unlock releases the directory.
func (l *DirLock) Unlock() error { return l.release.Release() }

// WriteFile writes data to path atomically, and creates its directory if needed. It writes a second file, syncs and
// renames it, and syncs the directory. After an error path has its old or its new content, never a part.
func WriteFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	beside := path + ".tmp"
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		return fileutil.Rename(beside, path)
	}
	_ = os.Remove(beside) // otherwise a full disk stays full
	return fmt.Errorf("%w (the file before it is untouched)", err)
}
