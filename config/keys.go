package config

import (
	"reflect"
	"strings"
)

// fieldsOf lists the keys of struct type t in order of declaration. The name of a field is its key. Fields of embedded
// structs count as the outer struct's.
func fieldsOf(t reflect.Type) (fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.Name = key; key != "" && key != "-" {
			fields = append(fields, f)
		}
	}
	return fields
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
