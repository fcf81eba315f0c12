package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFuzzTargetsAreNamedApart: go test -fuzz takes an expression, which must match one target, so that within a package no
// target's name is a part of another's.
func TestFuzzTargetsAreNamedApart(t *testing.T) {
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	targets := map[string][]string{} // by directory
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range target.FindAllSubmatch(source, -1) {
			targets[filepath.Dir(path)] = append(targets[filepath.Dir(path)], string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(targets) < 8 {
		t.Fatalf("fuzz targets in %d packages only", len(targets))
	}
	for dir, names := range targets {
		for i, a := range names {
			for j, b := range names {
				if i != j && strings.Contains(b, a) {
					t.Errorf("%s: -fuzz %s matches %s too", dir, a, b)
				}
			}
		}
	}
}
