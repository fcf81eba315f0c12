package config

import (
	"strings"

	"github.com/forewarm/forewarm/internal/value"
)

// Error is one error in a configuration. Its text is one line:
//
//	forewarm.yaml:12: pools[chat].warmup.p90 = 75m: must be at most 55m; …
type Error struct {
	Source string // file:line or environment variable of the key; "" for a default
	Text   string // key, value, the valid values, and the fix
}

// errorText joins the parts of a text; each but the key may be empty.
func errorText(key, value, bound, fix string) string {
	if value != "" {
		key += " = " + value
	}
	if bound != "" {
		key += ": " + bound
	}
	if fix != "" {
		key += "; " + fix
	}
	return key
}

// Error implements error. It collapses white space, and truncates long text.
func (e *Error) Error() string {
	text := strings.TrimPrefix(e.Source+": "+e.Text, ": ")
	return value.Cut(strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "�"), 400)
}

// Errors are all errors in a configuration, in the order of the file; one line each.
type Errors []*Error

// Error implements error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}
