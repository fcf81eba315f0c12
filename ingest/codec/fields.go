package codec

import (
	"bytes"
	"slices"
	"strings"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// field is something of a request that foreign formats say, each under names of its own.
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

	// What requests are made of where a format does not say the thing itself.
	fieldLoggedAt // when a log line was written or shipped
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
	fieldObject // what kind of record it is
	fieldUsage  // null: reported, but not by this record

	fieldCount
)

// fieldNames are the names that a configuration may give other keys to. Those of Request are as in the native format.
var fieldNames = [fieldCount]string{
	"id", "pool", "class", "model", "tenant", "tier", "feature", "route", "region", "replica", "session", "attempt", "status",
	"arrived_at", "started_at", "first_token_at", "finished_at", "prompt_tokens", "cached_tokens", "output_tokens", "max_output_tokens",
	"logged_at", "total_tokens", "cache_read_tokens", "cache_write_tokens", "queue_s", "ttft_s", "ttft_ms", "duration_s", "duration_ms",
	"retries", "code", "cache_hit", "stream", "tags", "object", "usage",
}

// source is one place where a format keeps a field: keys from the outside in, joined by dots.
type source struct {
	field field
	path  string
}

// fieldTree finds the fields of a record in one walk over it: the keys of the sources as a trie. The first source of a
// field that a record has wins. A key that has dots itself is as good as nesting: "gen_ai.usage" and {"gen_ai":{"usage":…
// are one path.
type fieldTree struct {
	children map[string]*fieldTree
	leaf     bool
	field    field
	rank     uint16 // 1 + place in the table; lower wins
	path     string
	sources  []source // of the root: the whole table
}

// newFieldTree builds the tree of a table.
func newFieldTree(sources []source) *fieldTree {
	root := &fieldTree{sources: sources}
	for i, s := range sources {
		node := root
		for key := range strings.SplitSeq(s.path, ".") {
			if node.children == nil {
				node.children = map[string]*fieldTree{}
			}
			if node.children[key] == nil {
				node.children[key] = &fieldTree{}
			}
			node = node.children[key]
		}
		if !node.leaf { // the first source of a path wins
			node.leaf, node.field, node.rank, node.path = true, s.field, uint16(i+1), s.path
		}
	}
	return root
}

// at gives the node that key leads to, nil when there is none.
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

// paths names the most trusted sources of f, for people.
func (t *fieldTree) paths(f field) string {
	var paths []string
	for _, s := range t.sources {
		if s.field == f {
			paths = append(paths, s.path)
		}
	}
	if len(paths) > 3 {
		paths = append(paths[:3], "…")
	}
	return strings.Join(paths, ", ")
}

// record is what a walk found, by field.
type record struct {
	members [fieldCount]found
	ranks   [fieldCount]uint16 // of the source that was met; 0 for none
}

// find walks over the object in data and keeps where each field of the tree stands. What no source names is skipped, not
// read. A string where the tree expects an object is read as the JSON text it may hold. Objects nest no deeper than the
// tree, so recursion is bounded. O(len(data)).
func (d *decoder) find(data []byte, tree *fieldTree, r *record) {
	err := jsonparser.ObjectEach(data, func(key, raw []byte, typ jsonparser.ValueType, _ int) error {
		node := tree.at(key)
		if node == nil {
			return nil
		}
		if node.leaf {
			r.keep(node, found{node.path, raw, typ})
		}
		if len(node.children) == 0 {
			return nil
		}
		if typ == jsonparser.String && !slices.Contains(wrappers[:], string(key)) { // what stands there may be what a user wrote
			raw, typ = d.embedded(raw)
		}
		if typ == jsonparser.Object {
			d.find(raw, node, r)
		}
		return nil
	})
	if err != nil {
		d.fail(ingest.ReasonNotJSON, "%v", err)
	}
}

// keep remembers v as the value of its field unless a source that ranks before has been met. What stands for missing
// hides no other source, and neither does an object or a list where there should be one value.
func (r *record) keep(node *fieldTree, v found) {
	structured := v.typ == jsonparser.Object || v.typ == jsonparser.Array && node.field != fieldTags
	absent := v.missing() && (node.field != fieldUsage || v.typ != jsonparser.Null)
	if have := r.ranks[node.field]; structured || absent || have != 0 && have < node.rank {
		return
	}
	r.members[node.field], r.ranks[node.field] = v, node.rank
}

// lastRank is that of a member no source of the table names.
const lastRank = 1<<16 - 1

// has says whether the record says anything of f.
func (r *record) has(f field) bool { return r.ranks[f] != 0 }

// counted says whether the record has any count of tokens.
func (r *record) counted() bool {
	return r.has(fieldPromptTokens) || r.has(fieldOutputTokens) || r.has(fieldTotalTokens)
}

// add takes over what a later part of the same record says.
func (r *record) add(later *record) {
	for f := range fieldCount {
		if later.has(f) {
			r.members[f], r.ranks[f] = later.members[f], later.ranks[f]
		}
	}
}

// wrapped gives the object under the first of keys that holds one, as it is or as a string; nil when none does.
func (d *decoder) wrapped(data []byte, keys []string) []byte {
	for _, key := range keys {
		raw, typ, _, err := jsonparser.Get(data, key)
		if err == nil && typ == jsonparser.String {
			raw, typ = d.embedded(raw)
		}
		if err == nil && typ == jsonparser.Object {
			return raw
		}
	}
	return nil
}

// embedded gives the JSON object that a string holds; typ is not Object when it holds none that is sound.
func (d *decoder) embedded(raw []byte) (object []byte, typ jsonparser.ValueType) {
	if trimmed := bytes.TrimLeft(raw, " "); len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '\\' {
		return nil, jsonparser.NotExist
	}
	text, err := unescape(raw)
	if err != nil {
		return nil, jsonparser.NotExist
	}
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return nil, jsonparser.NotExist
	}
	if reason, _ := scan(text, d.limits.Depth); reason != "" {
		return nil, jsonparser.NotExist
	}
	return text, jsonparser.Object
}
