package config

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/parser"
)

// EnvPrefix begins the names of environment variables for keys.
const EnvPrefix = "FOREWARM_"

// EnvName returns the variable for a key: nats.url is FOREWARM_NATS_URL.
func EnvName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// inEnv reports whether the environment can set a key of type t: a value or a list of values. Keys inside lists, maps
// and optional sections are only in the file.
func inEnv(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Map:
		return false
	case reflect.Pointer, reflect.Slice:
		return !isSection(t.Elem())
	}
	return true
}

// env sets keys of section v from the environment. It ignores other variables with the prefix, because Kubernetes
// creates some for a service called forewarm.
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

// fromEnv sets v from a variable: text as it is, other types as YAML, so that [a, b] is a list.
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
