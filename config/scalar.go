package config

import (
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/forewarm/forewarm/internal/value"
)

// scalar decodes one value strictly. A number is valid text; any other value of a wrong type is an error.
func (d *decoder) scalar(node ast.Node, v reflect.Value, path string) {
	var err error
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		var dur time.Duration
		dur, err = parseDuration(node.GetToken().Value)
		v.SetInt(int64(dur))
	case v.Kind() == reflect.String && !unmarshalsItself(v.Type()):
		switch node.(type) {
		case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
			d.fail(node, path, text(node), "must be "+want(v.Type()), "within brackets, quote what has a colon")
			return
		case *ast.LiteralNode:
			err = yaml.NodeToValue(node, v.Addr().Interface())
		default:
			v.SetString(node.GetToken().Value)
		}
		if hasPassword(v.String()) {
			d.fail(node, path, "(hidden)", "must not carry a password", "use a key that names a file, or set "+EnvName(path))
		}
		if isPath(path) && err == nil && v.String() != "" && !filepath.IsAbs(v.String()) {
			v.SetString(filepath.Join(d.dir, v.String()))
		}
	case !fits(node, v):
		err = fmt.Errorf("of another type")
	default:
		err = yaml.NodeToValue(node, v.Addr().Interface(), yaml.Strict())
		if v.CanFloat() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
			err = fmt.Errorf("not finite")
		}
	}
	if err != nil {
		d.fail(node, path, text(node), "must be "+want(v.Type()), "")
	}
}

// fits reports whether a value has the notation of v's type. The library would truncate 1.5 to an integer.
func fits(node ast.Node, v reflect.Value) bool {
	switch {
	case unmarshalsItself(v.Type()):
		return true
	case v.CanInt(), v.CanUint():
		return node.Type() == ast.IntegerType
	case v.CanFloat():
		return node.Type() == ast.IntegerType || node.Type() == ast.FloatType
	case v.Kind() == reflect.Bool:
		return node.Type() == ast.BoolType
	}
	return true
}

// parseDuration reads Go's notation with days: 90s, 1h30m, 8d, 1d12h.
func parseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, err
	}
	total := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return total, nil
	}
	more, err := time.ParseDuration(rest)
	return total + more, err
}

// hasPassword reports whether text has a URL with a password.
func hasPassword(text string) bool {
	for part := range strings.SplitSeq(text, ",") {
		if u, err := url.Parse(strings.TrimSpace(part)); err == nil && u.User != nil {
			if _, set := u.User.Password(); set {
				return true
			}
		}
	}
	return false
}

// want describes the values of type t for people.
func want(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration such as 90s, 10m, 12h or 30d"
	case unmarshalsItself(t):
		return "a valid " + strings.ToLower(t.Name())
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a finite number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number, not negative"
	case reflect.String:
		return "text"
	}
	return "a valid value"
}

// text returns the original text of a value, for a message.
func text(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "{…}"
	case *ast.SequenceNode:
		return "[…]"
	}
	return strconv.Quote(value.Cut(node.GetToken().Value, 60))
}
