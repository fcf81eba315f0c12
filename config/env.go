package config

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/parser"
)

// EnvPrefix starts the name of every environment variable that sets a key.
const EnvPrefix = "FOREWARM_"

// EnvName is the variable that sets key: nats.url is FOREWARM_NATS_URL.
func EnvName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// inEnv reports whether a key of type t can be set from the environment: values and lists of values can, keys inside lists,
// maps and optional sections are set in the file only.
func inEnv(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Map:
		return false
	case reflect.Pointer, reflect.Slice:
		return !isSection(deref(t.Elem()))
	}
	return true
}

// env sets keys of section v from the environment. Other variables that start with the prefix are left alone:
// Kubernetes injects its own for a service called forewarm.
func (d *decoder) env(v reflect.Value, path string, getenv func(string) string) {
	for _, f := range fieldsOf(v.Type()) {
		p := join(path, f.name)
		if isSection(f.typ) {
			d.env(v.FieldByIndex(f.index), p, getenv)
			continue
		}
		if value := getenv(EnvName(p)); value != "" && inEnv(f.typ) {
			d.fromEnv(EnvName(p), value, v.FieldByIndex(f.index), p)
		}
	}
}

// fromEnv sets v from the text of a variable: text as it is, everything else as YAML, so that [a, b] is a list.
func (d *decoder) fromEnv(name, value string, v reflect.Value, path string) {
	d.source[path] = name
	if v.Kind() == reflect.String && !unmarshalsItself(v.Type()) {
		v.SetString(value)
		return
	}
	file, err := parser.ParseBytes([]byte(value), 0)
	if err != nil || len(file.Docs) != 1 || file.Docs[0].Body == nil {
		d.errs = append(d.errs, &Error{Source: name, Key: path, Value: value, Bound: "must be " + want(v.Type())})
		return
	}
	in := decoder{source: map[string]string{}}
	in.decode(file.Docs[0].Body, v, path, 0)
	for _, e := range in.errs {
		e.Source = name
		d.errs = append(d.errs, e)
	}
}
