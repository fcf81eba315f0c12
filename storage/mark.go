package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// WriteFile makes path hold exactly data, or leaves it as it was, making its directory when needed: see writeFile.
func WriteFile(path string, data []byte) error {
	var d realDisk
	if err := d.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return writeFile(d, path, exactly(data))
}

// markFile holds the mark of reports: JSON, {"version": 1, "reported": an RFC 3339 time}.
const markFile = "reported.json"

type mark struct {
	Version  int       `json:"version"`
	Reported time.Time `json:"reported"`
}

// ReadReported gives the end of the newest period that was reported of a data directory; ok is false where there is no
// mark yet.
func ReadReported(dir string) (reported time.Time, ok bool, err error) {
	path := filepath.Join(dir, markFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, err
	}
	var m mark
	if err := json.Unmarshal(data, &m); err != nil || m.Version != 1 || m.Reported.IsZero() {
		return time.Time{}, false, fmt.Errorf("%s is no mark of reports (version 1); remove it, and the next period is reported", path)
	}
	return m.Reported, true, nil
}

// WriteReported notes it.
func WriteReported(dir string, reported time.Time) error {
	var d realDisk
	if err := d.MkdirAll(dir); err != nil {
		return err
	}
	return writeReported(d, dir, reported)
}

func writeReported(d disk, dir string, reported time.Time) error {
	data, err := json.Marshal(mark{1, reported.UTC()})
	if err != nil {
		return err
	}
	return writeFile(d, filepath.Join(dir, markFile), exactly(append(data, '\n')))
}
