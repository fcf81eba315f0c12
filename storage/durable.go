package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// list makes dir when needed, removes temporary files that a crash left, and returns the numbers n of the files named
// <prefix><n><suffix>, ascending.
func list(d disk, dir, prefix, suffix string) ([]uint64, error) {
	if err := d.MkdirAll(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), tempSuffix) {
			if err := d.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	return numbers(entries, prefix, suffix), nil
}

// numbered gives the numbers of the files <prefix><n><suffix> in dir, ascending.
func numbered(dir, prefix, suffix string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	return numbers(entries, prefix, suffix), err
}

func numbers(entries []fs.DirEntry, prefix, suffix string) (all []uint64) {
	for _, e := range entries {
		if n, ok := number(e, prefix, suffix); ok {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

func number(e fs.DirEntry, prefix, suffix string) (n uint64, ok bool) {
	digits, ok := strings.CutPrefix(e.Name(), prefix)
	if !ok || !e.Type().IsRegular() {
		return 0, false
	}
	if digits, ok = strings.CutSuffix(digits, suffix); !ok || digits == "" {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' || n > 1<<59 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// WriteFile makes path hold exactly data, or leaves it as it was, making its directory when needed: see writeFile.
func WriteFile(path string, data []byte) error {
	var d realDisk
	if err := d.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return writeFile(d, path, exactly(data))
}
