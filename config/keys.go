package config

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// field is one key of a configuration struct. Fields of inlined structs count as the outer struct's.
type field struct {
	name  string
	index []int
	typ   reflect.Type
}

// fieldsOf lists the keys of struct type t in order of declaration.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if slices.Contains(strings.Split(options, ","), "inline") {
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		fields = append(fields, field{name, []int{i}, f.Type})
	}
	return fields
}

// isSection reports whether t has keys, in contrast to a value.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() && !unmarshalsItself(t)
}

func unmarshalsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) ||
		p.Implements(reflect.TypeFor[yaml.BytesUnmarshaler]()) || p.Implements(reflect.TypeFor[yaml.InterfaceUnmarshaler]())
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// nearest is the candidate that shares the longest beginning with name, of two letters or more; "" without one.
func nearest(name string, candidates []string) (best string) {
	longest := 1
	for _, c := range candidates {
		n := 0
		for n < min(len(c), len(name)) && c[n] == name[n] {
			n++
		}
		if n > longest {
			best, longest = c, n
		}
	}
	return best
}
