package codec

import (
	"bytes"
	"slices"
	"strings"
)

// field is a field of a request in foreign formats, each with its own names.
type field uint8

const (
	fieldID field = iota
	fieldPool
	fieldClass
	fieldModel
	fieldTenant
	fieldTier
	fieldFeature
	fieldRoute
	fieldRegion
	fieldReplica
	fieldSession
	fieldAttempt
	fieldStatus
	fieldArrivedAt
	fieldStartedAt
	fieldFirstTokenAt
	fieldFinishedAt
	fieldPromptTokens
	fieldCachedTokens
	fieldOutputTokens
	fieldMaxOutputTokens

	// Fields from which missing fields of a request are computed.
	fieldLoggedAt // when a log line was written
	fieldTotalTokens
	fieldCacheReadTokens  // of the prompt, but not in a prompt count that is exclusive
	fieldCacheWriteTokens // likewise
	fieldQueueS
	fieldTTFTS
	fieldTTFTMS
	fieldDurationS
	fieldDurationMS
	fieldRetries
	fieldCode     // of the outcome: an HTTP status
	fieldCacheHit // a whole response came from a cache, and no engine saw the request
	fieldStream
	fieldTags
	fieldObject // kind of record
	fieldMethod // of HTTP or MCP
	fieldUsage  // null: reported, but not by this record
	fieldQueueMS
	fieldSchema
	fieldHitRate       // cached share of the prompt
	fieldBlockedTokens // of the prompt, as its blocks in the cache count it
	fieldResponseID
	fieldOperation
	fieldCallType
	fieldSpanKind
	fieldCall
	fieldProvider
	fieldPayload // a row of Dynamo's
	fieldService
	fieldInstance

	fieldCount
)

// paths are the paths of each field in a format, the most trusted first: keys from the outside in, joined by dots.
type paths [fieldCount][]string

func (p paths) below(prefixes ...string) (all paths) {
	for _, prefix := range prefixes {
		for f := range p {
			for _, path := range p[f] {
				all[f] = append(all[f], prefix+path)
			}
		}
	}
	return all
}

// or adds less trusted paths.
func (p paths) or(others ...paths) paths {
	for _, other := range others {
		for f := range p {
			p[f] = slices.Concat(p[f], other[f])
		}
	}
	return p
}

// fieldTable finds the fields of a record by their paths, and by the starts of these. The most trusted path in the record
// wins. A key with dots is the same as nesting: "gen_ai.usage" and {"gen_ai":{"usage":… are one path.
type fieldTable struct {
	places map[string]place
	paths  paths
}

// place is what a path of keys leads to.
type place struct {
	path  string // of the field, for messages
	field field
	rank  uint16 // 1 + index in the paths of the field, the lowest wins; 0 for no field
	inner bool   // longer paths begin with it
}

// newFieldTable makes the table of paths. A path counts for the first field that has it.
func newFieldTable(all paths) *fieldTable {
	t := &fieldTable{places: map[string]place{}, paths: all}
	for f := range all {
		for i, path := range all[f] {
			for at, c := range path {
				if c == '.' {
					start := t.places[path[:at]]
					start.inner = true
					t.places[path[:at]] = start
				}
			}
			if p := t.places[path]; p.rank == 0 {
				t.places[path] = place{path, field(f), uint16(i + 1), p.inner}
			}
		}
	}
	return t
}

// names lists the most trusted paths of a field, for messages.
func (t *fieldTable) names(f field) string {
	return strings.Join(t.paths[f][:min(4, len(t.paths[f]))], ", ")
}

// record has the found values by field.
type record struct {
	members [fieldCount]value
	ranks   [fieldCount]uint16 // of the found path; 0 for none
}

func (r *record) has(f field) bool { return r.ranks[f] != 0 }

func (r *record) text(f field) []byte { return r.members[f].raw }

// is reports whether f is one of words, in any case.
func (r *record) is(f field, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return bytes.EqualFold(r.text(f), []byte(word)) })
}

// contains reports whether f contains one of words, in any case.
func (r *record) contains(f field, words ...string) bool {
	text := bytes.ToLower(r.text(f))
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(text, []byte(word)) })
}

func (r *record) counted() bool {
	return r.has(fieldPromptTokens) || r.has(fieldOutputTokens) || r.has(fieldTotalTokens)
}

// keep sets the value of f unless a more trusted one was found. Missing values hide no others, and neither do objects
// and lists in place of one value.
func (r *record) keep(f field, v value, rank uint16) {
	if v.kind == '"' {
		v.raw = bytes.TrimSpace(v.raw)
	}
	structured := v.kind == '{' || v.kind == '[' && f != fieldTags
	absent := v.missing() && (f != fieldUsage || v.kind != 'n')
	if !structured && !absent && (!r.has(f) || rank <= r.ranks[f]) {
		r.members[f], r.ranks[f] = v, rank
	}
}

// find keeps the values of the fields among the members of an object, which is below path. A string in place of an object
// is read as JSON text, if it is one. Recursion is bounded by the length of the paths.
func (d *Decoder) find(s *scanner, t *fieldTable, path []byte, r *record) {
	for s.open('{'); s.more('}'); {
		path := append(path, s.key...)
		p := t.places[string(path)]
		if p.inner && bytes.HasPrefix(bytes.TrimLeft(s.text[s.at:], whiteSpace), []byte("{")) {
			d.find(s, t, append(path, '.'), r)
			continue
		}
		v := value{name: p.path}
		if !s.value(&v) || p.path == "" && !p.inner {
			continue
		}
		text := d.text(&v)
		if p.rank > 0 {
			r.keep(p.field, v, p.rank)
		}
		if text = bytes.TrimSpace(text); p.inner && v.kind == '"' && len(text) > 0 && text[0] == '{' && isValid(text, d.limits.Depth) {
			inner := d.inside(text)
			d.find(&inner, t, append(path, '.'), r)
		}
	}
}
