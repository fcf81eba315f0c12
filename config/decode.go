package config

import (
	"cmp"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/prometheus/common/model"

	"github.com/forewarm/forewarm/internal/value"
)

// decoder copies a YAML tree to structs with defaults. It collects all errors, and records where each key was set. The
// library's own decoder stops at the first error, does not name the key, and reads 1.5 as the integer 1.
type decoder struct {
	checker
	file  string            // name in messages
	lines bool              // messages have the line, too
	dir   string            // base of relative paths
	files map[string]string // paths of files, by key
}

func (d *decoder) refuse(node ast.Node, key, value, bound, fix string) {
	d.errs.add(d.at(node), errorText(key, value, bound, fix))
}

func (d *decoder) at(node ast.Node) string {
	if !d.lines || node.GetToken() == nil || node.GetToken().Position == nil {
		return d.file
	}
	return d.file + ":" + strconv.Itoa(node.GetToken().Position.Line)
}

// decode copies node to v at path. A null keeps the default.
func (d *decoder) decode(node ast.Node, v reflect.Value, path string) {
	switch node.(type) {
	case nil, *ast.NullNode:
		return
	case *ast.TagNode, *ast.AnchorNode, *ast.AliasNode:
		d.refuse(node, path, "", "must have no tag, anchor or alias of YAML", "write the value out")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.decode(node, v.Elem(), path)
	case reflect.Struct:
		d.section(node, v, path)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, kv := range d.entries(node, path) {
			name := kv.Key.GetToken().Value
			elem := reflect.New(v.Type().Elem()).Elem()
			d.key(kv.Key, kv.Value, elem, join(path, name))
			v.SetMapIndex(reflect.ValueOf(name), elem)
		}
	case reflect.Slice:
		d.list(node, v, path)
	default:
		d.scalar(node, v, path)
	}
}

// key decodes the value of a key or list element, and records its place.
func (d *decoder) key(place, value ast.Node, v reflect.Value, path string) {
	d.source[path] = d.at(place)
	d.decode(value, v, path)
}

// entries returns the pairs of a mapping node. For another node it records an error.
func (d *decoder) entries(node ast.Node, path string) (all []*ast.MappingValueNode) {
	m, ok := node.(ast.MapNode)
	if !ok {
		d.refuse(node, cmp.Or(path, "configuration"), text(node), "must be a section of key: value lines", "indent its keys below it")
		return nil
	}
	for pairs := m.MapRange(); pairs.Next(); {
		all = append(all, pairs.KeyValue())
	}
	return all
}

func (d *decoder) section(node ast.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	for _, kv := range d.entries(node, path) {
		name := kv.Key.GetToken().Value
		if at := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Name == name }); at >= 0 {
			d.key(kv.Key, kv.Value, v.FieldByIndex(fields[at].Index), join(path, name))
			continue
		}
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.Name
		}
		fix := cmp.Or(value.DidYouMean(name, names), "known keys here: "+strings.Join(names, ", "))
		d.refuse(kv.Key, join(path, name), "", "unknown key", fix)
	}
}

func (d *decoder) list(node ast.Node, v reflect.Value, path string) {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		d.refuse(node, path, text(node), "must be a list", "write each element on a line of its own that starts with -")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, elem := range seq.Values {
		name := strconv.Itoa(i)
		if path == "pools" {
			if n, err := nameOf.FilterNode(elem); err == nil && n != nil {
				name = cmp.Or(n.GetToken().Value, name)
			}
		}
		d.key(elem, elem, v.Index(i), path+"["+name+"]")
	}
}

var nameOf, _ = yaml.PathString("$.name")

// numbers are the notations of YAML that the kind of a value accepts, and the kind's name for people.
var numbers = map[reflect.Kind]struct {
	notations []ast.NodeType
	name      string
}{
	reflect.Bool:    {[]ast.NodeType{ast.BoolType}, "true or false"},
	reflect.Float64: {[]ast.NodeType{ast.IntegerType, ast.FloatType}, "a finite number"},
	reflect.Int:     {[]ast.NodeType{ast.IntegerType}, "a whole number"},
	reflect.Int64:   {[]ast.NodeType{ast.IntegerType}, "a whole number"},
	reflect.Uint64:  {[]ast.NodeType{ast.IntegerType}, "a whole number, not negative"},
}

// scalar decodes one value. A number is taken as text where text is wanted; any other value of a wrong type is an error.
func (d *decoder) scalar(node ast.Node, v reflect.Value, path string) {
	switch of := numbers[v.Kind()]; {
	case v.Type() == reflect.TypeFor[time.Duration]():
		duration, err := parseDuration(node.GetToken().Value)
		if err != nil {
			d.refuse(node, path, text(node), "must be a duration such as 90s, 10m, 12h or 30d", "")
		}
		v.SetInt(int64(duration))
	case v.Kind() == reflect.String:
		d.text(node, v, path)
	default:
		known := slices.Contains(of.notations, node.Type()) && yaml.NodeToValue(node, v.Addr().Interface()) == nil
		if !known || v.CanFloat() && math.IsInf(v.Float(), 0) {
			d.refuse(node, path, text(node), "must be "+of.name, "")
		}
	}
}

// text decodes text. A relative path becomes one from the working directory.
func (d *decoder) text(node ast.Node, v reflect.Value, path string) {
	switch n := node.(type) {
	case ast.MapNode, *ast.SequenceNode:
		d.refuse(node, path, text(node), "must be text", "within brackets, quote what has a colon")
		return
	case *ast.LiteralNode:
		v.SetString(n.Value.Value)
	default:
		v.SetString(node.GetToken().Value)
	}
	if password.MatchString(v.String()) || urlKey.MatchString(path) && schemeless.MatchString(v.String()) {
		d.refuse(node, path, "(hidden)", "must not carry a password", "use a key that names a file, or set "+EnvName(path))
	}
	if isPath(path) && v.String() != "" && !filepath.IsAbs(v.String()) {
		v.SetString(filepath.Join(d.dir, v.String()))
	}
	d.note(path, v.String())
}

func (d *decoder) note(key, path string) {
	if isFile(key) && path != "" {
		d.files[key] = path
	}
}

// parseDuration reads the notations of Go and, with days, of Prometheus: 90s, 1h30m, 7.5ms, 8d, 1d12h.
func parseDuration(s string) (time.Duration, error) {
	if duration, err := time.ParseDuration(s); err == nil {
		return duration, nil
	}
	duration, err := model.ParseDuration(s)
	return time.Duration(duration), err
}

// password finds one in a URL. In the value of a urlKey, schemeless finds one in URLs without schemes, which NATS accepts.
var (
	urlKey     = regexp.MustCompile(`url(s\[\d+\])?$`)
	password   = regexp.MustCompile(`//[^/?#\s]*:[^/?#\s]*@`)
	schemeless = regexp.MustCompile(`(^|,)\s*[^/?#:\s]*:/?[^/@][^@]*@`)
)

func text(node ast.Node) string {
	switch node.(type) {
	case ast.MapNode:
		return "{…}"
	case *ast.SequenceNode:
		return "[…]"
	}
	return strconv.Quote(value.Cut(node.GetToken().Value, 60))
}
