package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The exit code says whether damage remains.
func TestVerify(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../storage/testdata/v1")); err != nil {
		t.Fatal(err)
	}
	try := func(want int, says string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"verify"}, args...), streams{&out, &errs}); code != want || !strings.Contains(out.String()+errs.String(), says) {
			t.Errorf("verify %v: exit code %d, want %d with %q:\n%s%s", args, code, want, says, &out, &errs)
		}
	}
	try(0, "sound     journal/journal-000001.log: 6 decisions", dir)
	if err := os.Truncate(filepath.Join(dir, "journal", "journal-000001.log"), 1000); err != nil {
		t.Fatal(err)
	}
	try(1, "damaged   journal/journal-000001.log: record at byte 890 is cut, after 5 sound decisions", dir)
	try(0, "repaired  journal/journal-000001.log", "-repair", dir)
	try(0, "sound     journal/journal-000001.log: 5 decisions", dir)
}
