package config

import (
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

// decoder copies a YAML tree to structs with defaults. It collects all errors, and records where each key was set.
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
	node = d.resolve(node, path)
	if node == nil || node.Type() == ast.NullType {
		return
	}
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		d.decode(node, v.Elem(), path, depth+1)
	case isSection(t):
		d.section(node, v, path, depth)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		d.mapping(node, v, path, depth)
	case t.Kind() == reflect.Slice:
		d.list(node, v, path, depth)
	default:
		d.scalar(node, v, path)
	}
}

func (d *decoder) resolve(node ast.Node, path string) ast.Node {
	for range maxDepth {
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.TagNode:
			node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			target, ok := d.anchors[name]
			if !ok {
				d.fail(node, path, "*"+name, "must be an anchor defined above", "define &"+name+" or write the value out")
				return nil
			}
			node = target
		default:
			return node
		}
	}
	d.fail(node, path, "", "must not refer to itself", "write the value out")
	return nil
}

// entries returns the pairs of a mapping node. For another node it records an error, and ok is false.
func (d *decoder) entries(node ast.Node, path string) (values []*ast.MappingValueNode, ok bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	key := path
	if key == "" {
		key = "configuration"
	}
	d.fail(node, key, text(node), "must be a section of key: value lines", "indent its keys below it")
	return nil, false
}

func (d *decoder) section(node ast.Node, v reflect.Value, path string, depth int) {
	values, ok := d.entries(node, path)
	if !ok {
		return
	}
	fields := fieldsOf(v.Type())
	for _, kv := range values {
		if kv.Key.IsMergeKey() { // merged keys first, so that explicit ones override them
			d.decode(kv.Value, v, path, depth+1)
		}
	}
	for _, kv := range values {
		if kv.Key.IsMergeKey() {
			continue
		}
		name := kv.Key.GetToken().Value
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if at < 0 {
			d.unknown(kv.Key, join(path, name), name, fields)
			continue
		}
		p := join(path, name)
		d.source[p] = d.at(kv.Key)
		d.decode(kv.Value, v.FieldByIndex(fields[at].index), p, depth+1)
	}
}

func (d *decoder) unknown(node ast.Node, path, name string, fields []field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	fix := "known keys here: " + strings.Join(names, ", ")
	if near := nearest(name, names); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	d.fail(node, path, "", "unknown key", fix)
}

func (d *decoder) mapping(node ast.Node, v reflect.Value, path string, depth int) {
	values, ok := d.entries(node, path)
	if !ok {
		return
	}
	m := reflect.MakeMap(v.Type())
	for _, kv := range values {
		name := kv.Key.GetToken().Value
		elem := reflect.New(v.Type().Elem()).Elem()
		d.source[join(path, name)] = d.at(kv.Key)
		d.decode(kv.Value, elem, join(path, name), depth+1)
		m.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), elem)
	}
	v.Set(m)
}

func (d *decoder) list(node ast.Node, v reflect.Value, path string, depth int) {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		d.fail(node, path, text(node), "must be a list", "write each element on a line of its own that starts with -")
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, len(seq.Values))
	for i, elem := range seq.Values {
		p := fmt.Sprintf("%s[%d]", path, i)
		item := reflect.New(v.Type().Elem()).Elem()
		d.source[p] = d.at(elem)
		d.decode(elem, item, p, depth+1)
		list = reflect.Append(list, item)
	}
	v.Set(list)
}
