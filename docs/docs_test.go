// Package docs_test compares the pages of this folder with the program.
package docs_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const root = ".." // of the repository

var update = flag.Bool("update", false, "write the generated parts of the pages")

// program builds forewarm once, in a folder that TestMain removes.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "forewarm-docs-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "forewarm")
	built = dir
	out, err := exec.Command("go", "build", "-o", path, root+"/cmd/forewarm").CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return path, err
})

var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages returns the paths of the files of the repository that match a pattern.
func pages(t *testing.T, patterns ...string) (all []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no file %s (%v)", pattern, err)
		}
		all = append(all, found...)
	}
	return all
}
