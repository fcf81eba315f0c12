package config

import (
	"strings"

	"github.com/forewarm/forewarm/internal/value"
)

// Error is one error in a configuration. Its text is one line:
//
//	forewarm.yaml:12: pools[0].warmup.p90 = 75m: must be at most 55m; …
type Error struct {
	Source string // file:line or environment variable of the key; "" for a default
	Key    string // as in pools[0].warmup.p90
	Value  string // the value; "" if absent
	Bound  string // the valid values
	Fix    string // the fix
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Source != "" {
		b.WriteString(e.Source + ": ")
	}
	b.WriteString(e.Key)
	if e.Value != "" {
		b.WriteString(" = " + e.Value)
	}
	if e.Bound != "" {
		b.WriteString(": " + e.Bound)
	}
	if e.Fix != "" {
		b.WriteString("; " + e.Fix)
	}
	return oneLine(b.String())
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

// oneLine collapses white space, and truncates long text.
func oneLine(s string) string {
	return value.Cut(strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "�"), 400)
}
