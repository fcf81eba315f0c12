package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxBytes bounds the size of a configuration file.
const MaxBytes = 1 << 20

// Load reads and validates the configuration at path, with overrides from the environment. An empty path means the
// defaults. Errors in the configuration are [Errors]; other errors are of reading the file.
func Load(path string) (*Config, error) {
	if path == "" {
		return Parse("", nil, os.Getenv)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w; name a readable file with -config", err)
	}
	return Parse(path, data, os.Getenv)
}

// Parse is [Load] for data in memory. Messages name file, and relative paths in data are relative to its directory. It
// reads the files that the configuration names.
func Parse(file string, data []byte, getenv func(string) string) (*Config, error) {
	d := newDecoder(file)
	c := Default()
	v := reflect.ValueOf(c).Elem()
	if err := d.document(data, v); err != nil {
		return nil, err
	}
	d.env(v, "", getenv)
	if len(d.errs) > 0 {
		return nil, d.errs
	}
	if errs := c.check(d.source); len(errs) > 0 {
		return nil, errs
	}
	return c, nil
}

func newDecoder(file string) *decoder {
	return &decoder{file: filepath.Base(file), dir: filepath.Dir(file), anchors: map[string]ast.Node{}, source: map[string]string{}}
}

// document decodes the one YAML document in data; an empty one changes nothing.
func (d *decoder) document(data []byte, v reflect.Value) error {
	if len(data) > MaxBytes {
		return Errors{{Source: d.file, Key: "configuration", Value: fmt.Sprintf("%d bytes", len(data)),
			Bound: fmt.Sprintf("must be at most %d bytes", MaxBytes), Fix: "is this the right file?"}}
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return Errors{syntaxError(d.file, err)}
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			d.fail(doc.Body, "configuration", "", "must be one YAML document", "remove the --- line and merge the sections")
			return nil
		default:
			body = doc.Body
		}
	}
	if body != nil {
		d.decode(body, v, "", 0)
	}
	return nil
}

func syntaxError(file string, err error) *Error {
	e := &Error{Source: file, Key: "configuration", Bound: err.Error()}
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		e.Bound = syntax.GetMessage()
		if tok := syntax.GetToken(); tok != nil {
			e.Source = fmt.Sprintf("%s:%d:%d", file, tok.Position.Line, tok.Position.Column)
		}
	}
	e.Bound, e.Fix = "not valid YAML: "+e.Bound, "check the indentation and quotes there"
	return e
}

// isPath reports whether key is a path on disk, or a list of them.
func isPath(key string) bool {
	key, _, _ = strings.Cut(key[strings.LastIndexByte(key, '.')+1:], "[")
	switch key {
	case "dir", "model_config":
		return true
	}
	return strings.HasSuffix(key, "_file") || strings.HasSuffix(key, "_files") || strings.HasSuffix(key, "_dir")
}
