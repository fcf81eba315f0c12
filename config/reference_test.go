package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	reference = "../docs/configuration.md"
	example   = "../deploy/forewarm.example.yaml"
	tableHead = "| key | type | default | meaning |\n|---|---|---|---|\n"
)

// TestReference: the page has a row for each key, with the type and default of the program, and its meaning. go test
// ./config -run TestReference -update writes rows, types and defaults. The meaning is written by hand, and also the
// default if the program has zero for it.
func TestReference(t *testing.T) {
	page := must(os.ReadFile(reference))
	got := referenceOf(t, string(page))
	if *update {
		if err := os.WriteFile(reference, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(strings.Split(string(page), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the page differs from the program, run this test with -update (-page +program):\n%s", diff)
	}
}

// referenceOf returns the page with new tables. A table has the keys below the prefix of its heading, except those of a
// heading with a longer prefix.
func referenceOf(t *testing.T, page string) string {
	t.Helper()
	meaning, stated := map[string]string{}, map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]* \\| ([^|]*) \\| (.*) \\|$").FindAllStringSubmatch(page, -1) {
		stated[row[1]], meaning[row[1]] = row[2], row[3]
	}
	heading := regexp.MustCompile("(?m)^##+ `([^`]+)`.*$")
	var prefixes []string
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		prefixes = append(prefixes, h[1])
	}
	tables := map[string]string{}
	for _, k := range leaves(reflect.ValueOf(*Default()), "") {
		if strings.HasPrefix(k.name, "default_pool.") {
			continue // the keys of a pool
		}
		in := ""
		for _, p := range prefixes {
			if rest, ok := strings.CutPrefix(k.name, p); ok && strings.IndexAny(rest, ".[") == 0 && len(p) > len(in) {
				in = p
			}
		}
		value := k.value
		if value == "" {
			value = stated[k.name] // written by hand
		}
		if meaning[k.name] == "" {
			t.Errorf("%s: %s does not say what it means", reference, k.name)
		}
		tables[in] += fmt.Sprintf("| `%s` | %s | %s | %s |\n", k.name, k.kind, value, meaning[k.name])
	}
	parts := strings.Split(page, tableHead)
	for i := range parts[1:] {
		before := ""
		if all := heading.FindAllStringSubmatch(strings.Join(parts[:i+1], ""), -1); len(all) > 0 {
			before = all[len(all)-1][1]
		}
		rest := parts[i+1]
		for strings.HasPrefix(rest, "|") {
			_, rest, _ = strings.Cut(rest, "\n")
		}
		parts[i+1] = tables[before] + rest
		delete(tables, before)
	}
	for prefix := range tables {
		t.Errorf("%s: no table below the heading of %q", reference, prefix)
	}
	return strings.Join(parts, tableHead)
}

// leaf is a key that has a value.
type leaf struct{ name, kind, value string }

// leaves lists every key below a value, in the order of declaration.
func leaves(v reflect.Value, path string) (all []leaf) {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		return leaves(reflect.New(t.Elem()).Elem(), path)
	case t.Kind() == reflect.Struct:
		for _, f := range fieldsOf(t) {
			all = append(all, leaves(v.FieldByIndex(f.Index), join(path, f.Name))...)
		}
		return all
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return leaves(reflect.New(t.Elem()).Elem(), path+"[]")
	}
	return []leaf{{path, kindOf(t, path), shown(v)}}
}

// kindOf names the type of a key.
func kindOf(t reflect.Type, path string) string {
	switch {
	case t.Kind() == reflect.Slice:
		return "list of " + kindOf(t.Elem(), path)
	case t.Kind() == reflect.Map:
		return "map"
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Bool:
		return "true, false"
	case t.Kind() == reflect.String && isPath(path):
		return "path"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	return "integer"
}

// shown is a default as a user writes it. It is empty for zero values.
func shown(v reflect.Value) string {
	text := show(v.Interface())
	switch {
	case v.Kind() == reflect.Bool:
	case v.IsZero(), v.Kind() == reflect.Map, v.Kind() == reflect.Slice && v.Len() == 0:
		return ""
	case v.Kind() == reflect.String:
		text = v.String()
	case v.Kind() == reflect.Slice:
		text = strings.ReplaceAll(text, " ", ", ")
	case v.Type() == reflect.TypeFor[time.Duration]() && v.Int()%int64(24*time.Hour) == 0:
		text = fmt.Sprintf("%dd", v.Int()/int64(24*time.Hour))
	}
	return "`" + text + "`"
}

// TestExample: the example is short. Only its pools differ from the defaults. Keys in its comments exist.
func TestExample(t *testing.T) {
	text := must(os.ReadFile(example))
	if n := strings.Count(string(text), "\n"); n > 60 {
		t.Errorf("the example has %d lines, want at most 60", n)
	}
	got := must(parseFile(t, example))
	if len(got.Pools) != 1 {
		t.Errorf("the example has %d pools, want 1", len(got.Pools))
	}
	got.Pools = nil // pools have no default
	if diff := cmp.Diff(Default(), got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("the example differs from the defaults (-default +example):\n%s", diff)
	}
	for _, line := range regexp.MustCompile(`(?m)^ *#((?:- )?[a-z_]+:.*)$`).FindAllStringSubmatch(string(text), -1) {
		if key, _, _ := strings.Cut(strings.TrimPrefix(line[1], "- "), ":"); !slices.ContainsFunc(leaves(reflect.ValueOf(*Default()), ""), func(k leaf) bool {
			return slices.Contains(strings.Split(strings.ReplaceAll(k.name, "[]", ""), "."), key)
		}) {
			t.Errorf("the example has %q, but there is no such key", line[1])
		}
	}
}
