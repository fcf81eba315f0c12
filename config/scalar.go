package config

import (
	"math"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/forewarm/forewarm/internal/value"
)

// notations are the kinds of YAML values that a number or bool accepts. The library would read 1.5 as an integer.
var notations = map[reflect.Kind][]ast.NodeType{
	reflect.Bool: {ast.BoolType}, reflect.Float64: {ast.IntegerType, ast.FloatType},
	reflect.Int: {ast.IntegerType}, reflect.Int64: {ast.IntegerType}, reflect.Uint64: {ast.IntegerType},
}

// scalar decodes one value strictly. A number is valid text; any other value of a wrong type is an error.
func (d *decoder) scalar(node ast.Node, v reflect.Value, path string) {
	ok := false
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		duration, err := parseDuration(node.GetToken().Value)
		v.SetInt(int64(duration))
		ok = err == nil
	case v.Kind() == reflect.String:
		switch n := node.(type) {
		case ast.MapNode, *ast.SequenceNode:
			d.fail(node, path, text(node), "must be text", "within brackets, quote what has a colon")
			return
		case *ast.LiteralNode:
			v.SetString(n.Value.Value)
		default:
			v.SetString(node.GetToken().Value)
		}
		if hasPassword(v.String()) {
			d.fail(node, path, "(hidden)", "must not carry a password", "use a key that names a file, or set "+EnvName(path))
		}
		if isPath(path) && v.String() != "" && !filepath.IsAbs(v.String()) {
			v.SetString(filepath.Join(d.dir, v.String()))
		}
		ok = true
	case slices.Contains(notations[v.Kind()], node.Type()):
		ok = yaml.NodeToValue(node, v.Addr().Interface()) == nil && !(v.CanFloat() && math.IsInf(v.Float(), 0))
	}
	if !ok {
		d.fail(node, path, text(node), "must be "+want(v.Type()), "")
	}
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
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a finite number"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "a whole number"
	case t.Kind() == reflect.Uint64:
		return "a whole number, not negative"
	}
	return "a list" // an environment variable has no other type
}

// text returns the original text of a value, for a message.
func text(node ast.Node) string {
	switch node.(type) {
	case ast.MapNode:
		return "{…}"
	case *ast.SequenceNode:
		return "[…]"
	}
	return strconv.Quote(value.Cut(node.GetToken().Value, 60))
}
