package codec

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Redact gives what may be kept of a record that is refused: its shape, as JSON where the record is JSON. Keys stay, and
// the numbers and short identifying strings under keys that some format has a use for (id, pool, model, status,
// arrived_at …). Every other string becomes its length, "<812>", and what else is not punctuation becomes ~. So no prompt
// text is kept, wherever in the record it stands and however broken the record is: the pass is lexical. Nothing is kept
// of what does not begin as JSON.
//
// At most limit bytes come out, of the first 64 KiB that go in. O(length), one allocation.
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

// str passes over a string from its opening quote.
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

// word passes over a run of what is neither a string, nor punctuation, nor white space.
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

// identifying are the keys whose strings are names, states and times, and the longest string that is kept of each: the
// keys of the native format, and the last of each path of the foreign ones.
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
	delete(keys, fieldNames[fieldSession]) // hashed, never kept in clear
	for _, t := range tables {
		for f, all := range t.paths {
			for _, path := range all {
				last := path[strings.LastIndexByte(path, '.')+1:]
				for _, key := range [...]string{path, last} { // a path may be a key that has dots
					if field(f) != fieldSession {
						keys[key] = max(keys[key], limit(field(f)))
					}
				}
			}
		}
	}
	delete(keys, "request") // of Kong's latencies; elsewhere it holds what users wrote
	return keys
}

// quoted shows a value of a message in a Detail, if it is short as an enumeration's or made as a number or a time;
// otherwise it says how long the value is, for it may be text.
func quoted(text []byte) string {
	if len(text) <= redactWord && isIdentifier(text) || isInstant(text) {
		return strconv.Quote(string(text))
	}
	return fmt.Sprintf("a string of %d bytes", len(text))
}

const numerals = "0123456789"

// isIdentifier says whether text could be a name, an id, a path or a date: no white space, nothing that is not ASCII.
func isIdentifier(text []byte) bool {
	return isMadeOf(text, numerals+"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-:/@+=")
}

// isInstant says whether text is made of what numbers, dates and times are made of.
func isInstant(text []byte) bool { return len(text) <= 40 && isMadeOf(text, numerals+"-+.: TZe") }

func isNumeral(word []byte) bool { return isMadeOf(word, numerals+"-+.eE") }

func isMadeOf(text []byte, set string) bool { return len(bytes.TrimLeft(text, set)) == 0 }
