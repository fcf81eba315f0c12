package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/forewarm/forewarm/internal/value"
)

// MaxBytes bounds the size of a configuration file.
const MaxBytes = 1 << 20

// Load reads and validates the configuration at path, with overrides from the environment. Errors in the configuration
// are [Errors]; other errors are of reading the file.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w; name a readable file with -config", err)
	}
	return Parse(path, data, os.Getenv)
}

// Parse is [Load] for data in memory. Messages name file, and relative paths in data are relative to its directory. It
// reads the files that pools name; see [Config.CheckFiles].
func Parse(file string, data []byte, getenv func(string) string) (*Config, error) {
	d := &decoder{
		checker: checker{source: map[string]string{}},
		file:    filepath.Base(file),
		lines:   true,
		dir:     filepath.Dir(file),
		files:   map[string]string{},
	}
	c := Default()
	v := reflect.ValueOf(c).Elem()
	d.document(data, v, "")
	d.env(v, getenv)
	if len(d.errs) > 0 {
		return nil, d.errs
	}
	if c.check(&d.checker); len(d.errs) > 0 {
		return nil, d.errs
	}
	c.decoder = d
	return c, nil
}

// CheckFiles reads each file that the configuration names. [Parse] reads those of pools only, because secrets and
// certificates may come later.
func (c *Config) CheckFiles() error {
	k := checker{source: c.decoder.source}
	for _, key := range slices.Sorted(maps.Keys(c.decoder.files)) {
		k.file(key, c.decoder.files[key], maxCurveBytes, "name a file with a secret or certificate, and let the daemon read it")
	}
	if len(k.errs) > 0 {
		return k.errs
	}
	return nil
}

// document decodes the one YAML document in data to v at path; an empty one changes nothing.
func (d *decoder) document(data []byte, v reflect.Value, path string) {
	if len(data) > MaxBytes {
		d.errs.add(d.file, fmt.Sprintf("configuration = %d bytes: must be at most %d bytes; is this the right file?", len(data), MaxBytes))
		return
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		d.syntaxError(err)
		return
	}
	docs := slices.DeleteFunc(file.Docs, func(doc *ast.DocumentNode) bool { return doc.Body == nil })
	switch len(docs) {
	case 0:
	case 1:
		d.decode(docs[0].Body, v, path)
	default:
		d.refuse(docs[1].Body, "configuration", "", "must be one YAML document", "remove the --- line and merge the sections")
	}
}

func (d *decoder) syntaxError(err error) {
	place, message := d.file, err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		message = syntax.GetMessage()
		if tok := syntax.GetToken(); tok != nil {
			place = fmt.Sprintf("%s:%d:%d", d.file, tok.Position.Line, tok.Position.Column)
		}
	}
	d.errs.add(place, "configuration: not valid YAML: "+message+"; check the indentation and quotes there")
}

// EnvPrefix begins the names of environment variables for keys.
const EnvPrefix = "FOREWARM_"

// EnvName returns the variable for a key: nats.url is FOREWARM_NATS_URL.
func EnvName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// settable calls do with each key of section v that the environment can set: values and lists of values. Keys inside
// lists, maps and optional sections are only in the file.
func settable(v reflect.Value, path string, do func(key string, field reflect.Value)) {
	for _, f := range fieldsOf(v.Type()) {
		key, field := join(path, f.Name), v.FieldByIndex(f.Index)
		switch kind := f.Type.Kind(); {
		case kind == reflect.Struct:
			settable(field, key, do)
		case kind == reflect.Map, kind == reflect.Pointer, kind == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
		default:
			do(key, field)
		}
	}
}

func (d *decoder) env(v reflect.Value, getenv func(string) string) {
	settable(v, "", func(key string, field reflect.Value) {
		name := EnvName(key)
		switch text := getenv(name); {
		case text == "":
		case field.Kind() == reflect.String: // as it is: neither a path nor a password of the file
			d.source[key] = name
			field.SetString(text)
			d.note(key, text)
		default: // YAML, so that [a, b] is a list
			d.source[key] = name
			in := &decoder{checker: checker{source: map[string]string{}}, file: name, files: d.files}
			in.document([]byte(text), field, key)
			d.errs = append(d.errs, in.errs...)
		}
	})
}

// ofService matches variables that Kubernetes sets for a service whose name begins with forewarm.
var ofService = regexp.MustCompile(`^` + EnvPrefix + `(.*_)?(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// UnknownEnv returns a sentence on each variable that has the prefix, and sets no key. environ is as of [os.Environ].
func UnknownEnv(environ []string) (warnings []string) {
	var known []string
	settable(reflect.ValueOf(Default()).Elem(), "", func(key string, _ reflect.Value) { known = append(known, EnvName(key)) })
	for _, x := range environ {
		name, text, _ := strings.Cut(x, "=")
		if text != "" && strings.HasPrefix(name, EnvPrefix) && !slices.Contains(known, name) && !ofService.MatchString(name) {
			warnings = append(warnings, fmt.Sprintf("%s is set, but no key has this variable: %s", name,
				cmp.Or(value.DidYouMean(name, known), "keys inside lists, maps and optional sections are only in the file")))
		}
	}
	return warnings
}

func isFile(key string) bool {
	key, _, _ = strings.Cut(key[strings.LastIndexByte(key, '.')+1:], "[")
	return strings.HasSuffix(key, "_file") || strings.HasSuffix(key, "_files") || strings.HasSuffix(key, "_config")
}

func isPath(key string) bool {
	name := key[strings.LastIndexByte(key, '.')+1:]
	return isFile(key) || name == "dir" || strings.HasSuffix(name, "_dir")
}

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

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }
