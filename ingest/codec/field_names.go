package codec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// FieldName says under which other names records of a foreign format keep a field, for users may name as they like the
// keys of an access log, or the entry of metadata that tells the class. Paths are keys joined by dots, the most trusted
// first; they come before those that the format knows.
type FieldName struct {
	Format string   `yaml:"format"` // litellm, openai, envoy, sglang or kong
	Field  string   `yaml:"field"`  // as the native format calls it
	Paths  []string `yaml:"paths"`
}

// FieldMap is what [CompileFields] makes of names; nil names none.
type FieldMap struct{ trees map[string]*fieldTree } // by content type

// of gives the fields of f, with the names in m before its own.
func (m *FieldMap) of(f *format) *fieldTree {
	if m != nil {
		if tree := m.trees[f.contentType]; tree != nil {
			return tree
		}
	}
	return f.fields
}

// maxFieldNames bounds the other names in all: each is looked for in each record.
const maxFieldNames = 256

// CompileFields checks names, and prepares them for [Meta]. Errors name the element at fault.
func CompileFields(names []FieldName) (*FieldMap, error) {
	if len(names) == 0 {
		return nil, nil
	}
	m := &FieldMap{trees: map[string]*fieldTree{}}
	total := 0
	for i := range formats {
		if formats[i].fields == nil {
			continue
		}
		var sources []source
		for _, n := range names {
			if f := slices.Index(fieldNames[:], n.Field); f >= 0 && n.Format == formats[i].name {
				for _, path := range n.Paths {
					sources = append(sources, source{field(f), path})
				}
			}
		}
		if total += len(sources); len(sources) > 0 {
			m.trees[formats[i].contentType] = newFieldTree(append(sources, formats[i].fields.sources...))
		}
	}
	if total > maxFieldNames {
		return nil, fmt.Errorf("fields has %d paths: it must have at most %d", total, maxFieldNames)
	}
	for i, n := range names {
		if err := n.check(); err != nil {
			return nil, fmt.Errorf("fields[%d].%w", i, err)
		}
	}
	return m, nil
}

func (n *FieldName) check() error {
	mappable := func(f format) bool { return f.name == n.Format && f.fields != nil }
	switch {
	case !slices.ContainsFunc(formats[:], mappable):
		return fmt.Errorf("format is %q: it must be one of litellm, openai, envoy, sglang, kong", n.Format)
	case !slices.Contains(fieldNames[:], n.Field):
		return fmt.Errorf("field is %q: it must be one of %s", n.Field, strings.Join(fieldNames[:], ", "))
	case len(n.Paths) == 0:
		return errors.New("paths is []: it must name a key, or several joined by dots")
	}
	for i, path := range n.Paths {
		if len(path) > 256 || slices.Contains(strings.Split(path, "."), "") {
			return fmt.Errorf("paths[%d] is %q: it must be keys joined by dots", i, path)
		}
	}
	return nil
}
