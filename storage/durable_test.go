package storage

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWriteFileFails: a file that cannot be written leaves nothing behind.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "report.html")
	if err := WriteFile(filepath.Join(taken, "file"), nil); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(taken, []byte("page")); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if left := must(os.ReadDir(dir)); len(left) != 1 {
		t.Errorf("the directory holds %v", left)
	}
}

// TestSpace: a directory that cannot be read does not hide the files of others.
func TestSpace(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "b", "file"), []byte("content")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "a"), 0); err != nil {
		t.Fatal(err)
	}
	if _, used, err := Space(dir); used != 7 || err != nil {
		t.Errorf("%d bytes are in use, %v; want 7", used, err)
	}
}
