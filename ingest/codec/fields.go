package codec

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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
	fieldUsage  // null: reported, but not by this record
	fieldQueueMS
	fieldSchema
	fieldFinish
	fieldError
	fieldHitRate // cached share of the prompt
	fieldBlocks
	fieldBlockTokens
	fieldBlockedTokens // of the prompt, as its blocks count it
	fieldResponseID
	fieldHTTPStatus
	fieldOperation
	fieldCallType
	fieldSpanKind
	fieldCall
	fieldProvider
	fieldAnthropicInput // of the prompt, without tokens read from a cache or written to it
	fieldPayload        // a row of Dynamo's
	fieldService
	fieldInstance

	fieldCount
)

// paths are the paths of each field in a format, the most trusted first: keys from the outside in, joined by dots.
type paths [fieldCount][]string

// below returns the paths of p below each of prefixes.
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
func (p paths) or(others ...paths) (all paths) {
	for f := range p {
		all[f] = append(all[f], p[f]...)
		for i := range others {
			all[f] = append(all[f], others[i][f]...)
		}
	}
	return all
}

// fieldTree finds the fields of a record in one pass: it is a trie of the keys of the paths. The most trusted path in
// the record wins. A key with dots is the same as nesting: "gen_ai.usage" and {"gen_ai":{"usage":… are one path.
type fieldTree struct {
	children map[string]*fieldTree
	leaf     bool
	field    field
	rank     uint16 // 1 + index in the paths of the field; the lowest wins
	path     string
	paths    paths // of the root
}

// newFieldTree builds the tree of the paths in layers. If several layers have a path, the first one defines its field.
func newFieldTree(layers ...paths) *fieldTree {
	root := &fieldTree{paths: layers[0].or(layers[1:]...)}
	var ranks [fieldCount]uint16
	for _, layer := range layers {
		for f := range layer {
			for _, path := range layer[f] {
				ranks[f]++
				node := root
				for key := range strings.SplitSeq(path, ".") {
					if node.children == nil {
						node.children = map[string]*fieldTree{}
					}
					if node.children[key] == nil {
						node.children[key] = &fieldTree{}
					}
					node = node.children[key]
				}
				if !node.leaf {
					node.leaf, node.field, node.rank, node.path = true, field(f), ranks[f], path
				}
			}
		}
	}
	return root
}

// at returns the node of key, nil without one.
func (t *fieldTree) at(key []byte) *fieldTree {
	for t != nil {
		name, rest, dotted := bytes.Cut(key, []byte{'.'})
		t = t.children[string(name)]
		if !dotted {
			return t
		}
		key = rest
	}
	return nil
}

// names lists the most trusted paths of fields, for messages.
func (t *fieldTree) names(fields ...field) string {
	var all []string
	for _, f := range fields {
		all = append(all, t.paths[f][:min(3, len(t.paths[f]))]...)
		if len(t.paths[f]) > 3 {
			all = append(all, "…")
		}
	}
	return strings.Join(all, ", ")
}

// record has the found values by field.
type record struct {
	members [fieldCount]value
	ranks   [fieldCount]uint16 // of the found path; 0 for none
}

// has reports whether the record has f.
func (r *record) has(f field) bool { return r.ranks[f] != 0 }

// text returns the raw value of f.
func (r *record) text(f field) []byte { return r.members[f].raw }

// is reports whether f is one of words, in any case.
func (r *record) is(f field, words ...string) bool {
	for _, word := range words {
		if bytes.EqualFold(r.text(f), []byte(word)) {
			return true
		}
	}
	return false
}

// contains reports whether f contains one of words, in any case.
func (r *record) contains(f field, words ...string) bool {
	text := bytes.ToLower(r.text(f))
	for _, word := range words {
		if bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}

// counted reports whether the record has any count of tokens.
func (r *record) counted() bool {
	return r.has(fieldPromptTokens) || r.has(fieldOutputTokens) || r.has(fieldTotalTokens)
}

// set sets the value of f.
func (r *record) set(f field, v value, rank uint16) { r.members[f], r.ranks[f] = v, rank }

// keep sets the value of f unless a more trusted one was found. Missing values hide no others, and neither do objects
// and lists in place of one value.
func (r *record) keep(f field, v value, rank uint16) {
	if v.kind == '"' {
		v.raw = bytes.TrimSpace(v.raw)
	}
	structured := v.kind == '{' || v.kind == '[' && f != fieldTags && f != fieldBlocks
	absent := v.missing() && (f != fieldUsage || v.kind != 'n')
	if !structured && !absent && (!r.has(f) || rank <= r.ranks[f]) {
		r.set(f, v, rank)
	}
}

// find reads the next object of j and keeps the values in the tree; it skips all others. A string in place of an object
// is read as JSON text. Recursion is bounded by the depth of the tree.
func (d *Decoder) find(j *jsonReader, tree *fieldTree, r *record) {
	d.object(j, "a record", func(key []byte) {
		node := tree.at(key)
		switch {
		case node == nil:
			j.skip()
			return
		case len(node.children) > 0 && j.kind() == '{':
			d.find(j, node, r)
			return
		}
		v := d.valueOf(node.path, j.raw())
		if node.leaf {
			r.keep(node.field, v, node.rank)
		}
		if len(node.children) > 0 && v.kind == '"' {
			d.findInText(v.raw, node, r)
		}
	})
}

// findInText finds fields in a text that is a JSON object; it ignores other texts.
func (d *Decoder) findInText(text []byte, tree *fieldTree, r *record) {
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '{' && d.isValidJSON(text) {
		var j jsonReader
		j.reset(text)
		d.find(&j, tree, r)
	}
}

// isValidJSON reports whether text is valid JSON within the limits.
func (d *Decoder) isValidJSON(text []byte) bool {
	return !nestsDeeper(text, d.limits.Depth) && jsontext.Value(text).IsValid(jsonOptions...)
}
