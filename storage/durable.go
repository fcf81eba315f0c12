package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// tempSuffix marks files that are being written; a crash leaves them behind, and the next opening removes them.
const tempSuffix = ".tmp"

// DirLock is the right of one process to a directory. The kernel releases it when the process dies, however it dies.
type DirLock struct {
	release fileutil.Releaser
}

// ErrLocked says that another process holds a directory.
var ErrLocked = errors.New("in use by another forewarm")

// Lock claims dir, making it when needed. It fails when another process holds it.
func Lock(dir string) (*DirLock, error) { return lock(realDisk{}, dir) }

func lock(d disk, dir string) (*DirLock, error) {
	name := filepath.Join(dir, "lock")
	if err := d.MkdirAll(dir); err != nil {
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

// Unlock gives the directory back.
func (l *DirLock) Unlock() error { return l.release.Release() }

// writeFile makes path hold exactly what write writes, or leaves it as it was: written beside, synced, renamed, and the
// directory synced. An error after the rename leaves the new file in place, whole.
func writeFile(d disk, path string, write func(io.Writer) error) (err error) {
	f, err := d.OpenFile(path+tempSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = d.Rename(path+tempSuffix, path)
	}
	if err != nil {
		_ = d.Remove(path + tempSuffix) // or else a full disk stays full
		return fmt.Errorf("%w (the file before it is untouched)", err)
	}
	return d.SyncDir(filepath.Dir(path))
}

func exactly(b []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}

// WriteFile makes path hold exactly data, or leaves it as it was, making its directory when needed: see writeFile.
func WriteFile(path string, data []byte) error {
	var d realDisk
	if err := d.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return writeFile(d, path, exactly(data))
}
