package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// MaxNodes bounds the values in a file. Aliases can make a short file large.
const MaxNodes = 100_000

// maxDepth bounds nesting, including aliases.
const maxDepth = 32

// decoder copies a YAML tree to structs with defaults. It collects all errors, and records where each key was set. The
// library's own decoder stops at the first error, does not name the key, and reads 1.5 as the integer 1.
type decoder struct {
	file    string // name in messages
	dir     string // base of relative paths
	anchors map[string]ast.Node
	source  map[string]string // key → file:line
	nodes   int
	errs    Errors
}

func (d *decoder) fail(node ast.Node, key, value, bound, fix string) {
	d.errs = append(d.errs, &Error{Source: d.at(node), Key: key, Value: value, Bound: bound, Fix: fix})
}

func (d *decoder) at(node ast.Node) string {
	if node.GetToken() == nil || node.GetToken().Position == nil {
		return d.file
	}
	return d.file + ":" + strconv.Itoa(node.GetToken().Position.Line)
}

// decode copies node to v at path. A null keeps the default.
func (d *decoder) decode(node ast.Node, v reflect.Value, path string, depth int) {
	if d.nodes++; d.nodes > MaxNodes || depth > maxDepth {
		if len(d.errs) == 0 {
			d.fail(node, path, "", fmt.Sprintf("must expand to at most %d values, %d deep", MaxNodes, maxDepth), "use fewer aliases")
		}
		return
	}
	switch n := node.(type) {
	case nil, *ast.NullNode:
		return
	case *ast.TagNode:
		d.decode(n.Value, v, path, depth+1)
		return
	case *ast.AnchorNode:
		d.anchors[n.Name.GetToken().Value] = n.Value
		d.decode(n.Value, v, path, depth+1)
		return
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if target := d.anchors[name]; target != nil {
			d.decode(target, v, path, depth+1)
		} else {
			d.fail(node, path, "*"+name, "must be an anchor defined above", "define &"+name+" or write the value out")
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.decode(node, v.Elem(), path, depth+1)
	case reflect.Struct:
		d.section(node, v, path, depth)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, kv := range d.entries(node, path) {
			name := kv.Key.GetToken().Value
			elem := reflect.New(v.Type().Elem()).Elem()
			d.key(kv.Key, kv.Value, elem, join(path, name), depth)
			v.SetMapIndex(reflect.ValueOf(name), elem)
		}
	case reflect.Slice:
		d.list(node, v, path, depth)
	default:
		d.scalar(node, v, path)
	}
}

// key decodes the value of a key or list element, and records its place.
func (d *decoder) key(place, value ast.Node, v reflect.Value, path string, depth int) {
	d.source[path] = d.at(place)
	d.decode(value, v, path, depth+1)
}

// entries returns the pairs of a mapping node. For another node it records an error.
func (d *decoder) entries(node ast.Node, path string) (all []*ast.MappingValueNode) {
	m, ok := node.(ast.MapNode)
	if !ok {
		d.fail(node, cmp.Or(path, "configuration"), text(node), "must be a section of key: value lines", "indent its keys below it")
		return nil
	}
	for pairs := m.MapRange(); pairs.Next(); {
		all = append(all, pairs.KeyValue())
	}
	return all
}

func (d *decoder) section(node ast.Node, v reflect.Value, path string, depth int) {
	values, fields := d.entries(node, path), fieldsOf(v.Type())
	for _, kv := range values {
		if kv.Key.IsMergeKey() { // merged keys first, so that explicit ones override them
			d.decode(kv.Value, v, path, depth+1)
		}
	}
	for _, kv := range values {
		name := kv.Key.GetToken().Value
		at := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Name == name })
		switch {
		case kv.Key.IsMergeKey():
		case at < 0:
			d.unknown(kv.Key, join(path, name), name, fields)
			for _, anchor := range ast.Filter(ast.AnchorType, kv.Value) { // so that their aliases are no errors as well
				anchor := anchor.(*ast.AnchorNode)
				d.anchors[anchor.Name.GetToken().Value] = anchor.Value
			}
		default:
			d.key(kv.Key, kv.Value, v.FieldByIndex(fields[at].Index), join(path, name), depth)
		}
	}
}

func (d *decoder) unknown(node ast.Node, path, name string, fields []reflect.StructField) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	fix := "known keys here: " + strings.Join(names, ", ")
	if near := nearest(name, names); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	d.fail(node, path, "", "unknown key", fix)
}

func (d *decoder) list(node ast.Node, v reflect.Value, path string, depth int) {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		d.fail(node, path, text(node), "must be a list", "write each element on a line of its own that starts with -")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, elem := range seq.Values {
		d.key(elem, elem, v.Index(i), fmt.Sprintf("%s[%d]", path, i), depth)
	}
}
