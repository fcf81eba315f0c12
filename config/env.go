package config

import (
	"reflect"
	"strings"
)

// EnvPrefix begins the names of environment variables for keys.
const EnvPrefix = "FOREWARM_"

// EnvName returns the variable for a key: nats.url is FOREWARM_NATS_URL.
func EnvName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// env sets keys of section v from the environment: values and lists of values. Keys inside lists, maps and optional
// sections are only in the file. It ignores other variables with the prefix, because Kubernetes creates some for a
// service called forewarm.
func (d *decoder) env(v reflect.Value, path string, getenv func(string) string) {
	for _, f := range fieldsOf(v.Type()) {
		p, field := join(path, f.Name), v.FieldByIndex(f.Index)
		name := EnvName(p)
		value := getenv(name)
		switch kind := f.Type.Kind(); {
		case kind == reflect.Struct:
			d.env(field, p, getenv)
		case value == "", kind == reflect.Map, kind == reflect.Pointer, kind == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
		case kind == reflect.String: // as it is: neither a path nor a password of the file
			d.source[p] = name
			field.SetString(value)
		default: // YAML, so that [a, b] is a list
			d.source[p] = name
			in := &decoder{checker: checker{source: map[string]string{}}, file: name}
			in.document([]byte(value), field, p)
			d.errs = append(d.errs, in.errs...)
		}
	}
}
