package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// disk is all that this package changes on a file system but for the TSDB, so that a test can make each call fail. What it
// reads, it reads past this.
type disk interface {
	MkdirAll(dir string) error
	OpenFile(name string, flag int) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	SyncDir(dir string) error // makes what was made, renamed and removed in dir survive a loss of power
	Free(dir string) (bytes int64, err error)
}

// file is an open file that is written.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

// realDisk is what a daemon has.
type realDisk struct{}

func (realDisk) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o750) }
func (realDisk) OpenFile(name string, flag int) (file, error) {
	f, err := os.OpenFile(name, flag, 0o640)
	if err != nil {
		return nil, err // not a file that is nil
	}
	return f, nil
}
func (realDisk) Rename(from, to string) error { return os.Rename(from, to) }
func (realDisk) Remove(name string) error     { return os.Remove(name) }

func (realDisk) SyncDir(dir string) error {
	d, err := fileutil.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Reserve is the space, in bytes, that storage leaves to others on its file system: neither series nor snapshots
// are written where less would be left. The journal and the outbox, which are small, may use it.
const Reserve = 16 << 20

// Free is the space, in bytes, that is left where a directory is.
func Free(dir string) (int64, error) { return realDisk{}.Free(dir) }

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

// roomFor is nil where so many bytes can be written and the reserve be left. Where that cannot be known the write will tell.
func roomFor(d disk, dir string, bytes int64) error {
	free, err := d.Free(dir)
	if err == nil && free < bytes+Reserve {
		return &FullError{dir, free, bytes + Reserve}
	}
	return nil
}
