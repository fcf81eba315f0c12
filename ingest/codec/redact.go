package codec

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Redact removes prompt text from a refused record. It keeps keys, numbers, and short identifying strings under keys of
// the formats (id, pool, model, status, arrived_at …). Every other string becomes its length, "<812>", and all else
// except punctuation becomes ~. It reads tokens only, so it also works on broken JSON. It keeps nothing of data that
// does not begin as JSON.
//
// The result has at most limit bytes, from the first 64 KiB of data. O(length), one allocation.
func Redact(data []byte, limit int) []byte {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 || data[0] != '{' && data[0] != '[' || limit <= 0 {
		return nil
	}
	r := redactor{data: data[:min(len(data), redactBytes)], out: make([]byte, 0, min(limit, len(data))+64)}
	for r.at < len(r.data) && len(r.out) < limit {
		r.token()
	}
	return r.out[:min(limit, len(r.out))]
}

const (
	redactBytes   = 64 << 10
	redactKey     = 40 // longest key that is kept
	redactName    = 64 // longest name
	redactWord    = 11 // longest state, or word in a Detail
	redactNumeral = 24 // longest number
)

// redactor is one pass of [Redact].
type redactor struct {
	data []byte
	at   int
	out  []byte

	key   []byte // of the value that follows
	value bool   // the last token was the colon after key
}

func (r *redactor) token() {
	switch c := r.data[r.at]; c {
	case '"':
		r.str()
	case '{', '}', '[', ']', ',', ':':
		r.value = c == ':' && r.key != nil
		if !r.value {
			r.key = nil
		}
		r.out = append(r.out, c)
		r.at++
	case '\n':
		if n := len(r.out); n > 0 && r.out[n-1] != '\n' {
			r.out = append(r.out, '\n')
		}
		r.at++
	case ' ', '\t', '\r':
		r.at++
	default:
		r.word()
	}
}

// str processes a string from its opening quote.
func (r *redactor) str() {
	end := stringEnd(r.data, r.at)
	text := r.data[r.at+1 : min(end, len(r.data))]
	closed := end < len(r.data)
	var keep bool
	if after := bytes.TrimLeft(r.data[min(end+1, len(r.data)):], " \t\r\n"); closed && len(after) > 0 && after[0] == ':' {
		keep = len(text) <= redactKey && isIdentifier(text)
		r.key, r.value = text, false
	} else {
		limit := identifying[string(r.key)]
		keep = closed && r.value && limit > 0 && (len(text) <= limit && isIdentifier(text) || isInstant(text))
		r.key, r.value = nil, false
	}
	r.out = append(r.out, '"')
	if keep {
		r.out = append(r.out, text...)
	} else {
		r.out = append(r.out, '<')
		r.out = strconv.AppendInt(r.out, int64(len(text)), 10)
		r.out = append(r.out, '>')
	}
	if r.at = end + 1; closed {
		r.out = append(r.out, '"')
	}
}

// word processes a run of characters without quotes, punctuation and white space.
func (r *redactor) word() {
	rest := r.data[r.at:]
	end := bytes.IndexAny(rest, "\"{}[],: \t\r\n")
	if end < 0 {
		end = len(rest)
	}
	word, after := rest[:end], bytes.TrimLeft(rest[end:], " \t\r")
	ends := len(after) == 0 || bytes.IndexByte([]byte(",}]\n"), after[0]) >= 0
	switch {
	case ends && (string(word) == "true" || string(word) == "false" || string(word) == "null"),
		ends && r.value && len(word) <= redactNumeral && isNumeral(word):
		r.out = append(r.out, word...)
	case len(r.out) == 0 || r.out[len(r.out)-1] != '~':
		r.out = append(r.out, '~')
	}
	r.key, r.value = nil, false
	r.at += end
}

// identifying maps keys with names, states and times to the longest string that is kept: the keys of the native format,
// and the last key of each path of the foreign ones.
var identifying = identifyingKeys(liteLLMFields, openAIFields, envoyFields, sglangFields, kongFields)

func identifyingKeys(tables ...*fieldTree) map[string]int {
	keys := map[string]int{"event_id": redactName, "schema": redactName, "event_type": redactWord, "state": redactWord, "stage": redactWord, "phase": redactWord}
	limit := func(f field) int {
		if f <= fieldReplica {
			return redactName
		}
		return redactWord
	}
	for i, name := range fieldNames {
		keys[name] = limit(field(i))
	}
	delete(keys, fieldNames[fieldSession]) // only its hash may be kept
	for _, t := range tables {
		for f, all := range t.paths {
			for _, path := range all {
				last := path[strings.LastIndexByte(path, '.')+1:]
				for _, key := range [...]string{path, last} { // a path may be one key with dots
					if field(f) != fieldSession {
						keys[key] = max(keys[key], limit(field(f)))
					}
				}
			}
		}
	}
	delete(keys, "request") // of Kong's latencies; elsewhere it may hold users' text
	return keys
}

// quoted formats a value of a message for a Detail, if it is as short as that of an enumeration, a number or a time. Of
// others it gives only the length, because they may be users' text.
func quoted(text []byte) string {
	if len(text) <= redactWord && isIdentifier(text) || isInstant(text) {
		return strconv.Quote(string(text))
	}
	return fmt.Sprintf("a string of %d bytes", len(text))
}

const numerals = "0123456789"

// isIdentifier reports whether text could be a name, an id, a path or a date: ASCII without white space.
func isIdentifier(text []byte) bool {
	return isMadeOf(text, numerals+"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-:/@+=")
}

// isInstant reports whether text has only the characters of numbers, dates and times.
func isInstant(text []byte) bool { return len(text) <= 40 && isMadeOf(text, numerals+"-+.: TZe") }

func isNumeral(word []byte) bool { return isMadeOf(word, numerals+"-+.eE") }

func isMadeOf(text []byte, set string) bool { return len(bytes.TrimLeft(text, set)) == 0 }
