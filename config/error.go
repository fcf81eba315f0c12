package config

import (
	"strings"

	"github.com/forewarm/forewarm/internal/value"
)

// Errors are all errors in a configuration, in the order of the file; one line each:
//
//	forewarm.yaml:12: pools[chat].warmup.p90 = 75m: must be at most 55m; …
type Errors []string

// Error implements error.
func (es Errors) Error() string { return strings.Join(es, "\n") }

// add appends an error. source is file:line or the environment variable of the key, "" for a default. White space is
// collapsed, and long text truncated.
func (es *Errors) add(source, text string) {
	text = strings.Join(strings.Fields(strings.TrimPrefix(source+": "+text, ": ")), " ")
	*es = append(*es, value.Cut(strings.ToValidUTF8(text, "�"), 400))
}

// errorText joins the parts of a text: key, value, valid values, and fix. Each but the key may be empty.
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
