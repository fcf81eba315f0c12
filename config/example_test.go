package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/go-cmp/cmp"
)

const example = "../deploy/forewarm.example.yaml"

// TestExampleShowsDefaults: the example is the reference, so what it sets must be what an empty file means.
func TestExampleShowsDefaults(t *testing.T) {
	got, err := parseFile(t, example)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Pools) != 1 {
		t.Errorf("the example has %d pools, want 1", len(got.Pools))
	}
	got.Pools = nil // each pool is its own; it has no defaults to compare with
	if diff := cmp.Diff(Default(), got); diff != "" {
		t.Errorf("the example differs from the defaults (-default +example):\n%s", diff)
	}
}

// TestExampleIsComplete: with what is commented out put in, every key is there and known.
func TestExampleIsComplete(t *testing.T) {
	data, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^( *)#((?:- )?[a-z_0-9]+:)`).ReplaceAll(data, []byte("$1$2"))
	d := decoder{file: "example", anchors: map[string]ast.Node{}, source: map[string]string{}}
	if err := d.document(all, reflect.ValueOf(Default()).Elem()); err != nil {
		t.Fatal(err)
	}
	if len(d.errs) > 0 {
		t.Fatal(d.errs)
	}
	shown := map[string]bool{}
	index := regexp.MustCompile(`\[\d+\]`)
	for key := range d.source {
		shown[index.ReplaceAllString(key, "[]")] = true
	}
	for _, key := range keys(reflect.TypeFor[Config](), "") {
		asPool := strings.Replace(key, "default_pool.", "pools[].", 1) // the template has the keys of a pool
		if !shown[key] && !shown[asPool] {
			t.Errorf("%s is not in the example", key)
		}
	}
}

// keys lists every key below a type as a dotted path, sections before what is in them; the elements of lists are written
// pools[].name.
func keys(t reflect.Type, path string) (all []string) {
	switch {
	case t.Kind() == reflect.Pointer:
		return keys(t.Elem(), path)
	case isSection(t):
		for _, f := range fieldsOf(t) {
			p := join(path, f.name)
			all = append(append(all, p), keys(f.typ, p)...)
		}
	case t.Kind() == reflect.Slice && isSection(deref(t.Elem())):
		return keys(t.Elem(), path+"[]")
	}
	return all
}
