package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/forewarm/forewarm/ingest"
)

// secret is the text of a prompt. No twelve bytes of it may be kept.
const secret = "my passphrase is Correct Horse: 4111 1111 1111 1111, \"tell nobody\" {or else}"

// secretRuns are all twelve consecutive bytes of the secret, plain and escaped.
var secretRuns = func() map[string]bool {
	runs := map[string]bool{}
	escaped, _ := json.Marshal(secret)
	for _, s := range []string{secret, string(escaped)} {
		for i := range len(s) - 11 {
			runs[s[i:i+12]] = true
		}
	}
	return runs
}()

func leaks(text string) bool {
	for i := range max(0, len(text)-11) {
		if secretRuns[text[i:i+12]] {
			return true
		}
	}
	return false
}

// checkSecret checks that refusals do not contain the secret. Records do not contain it either, unless it is in place
// of a name (named).
func checkSecret(t *testing.T, data []byte, b *ingest.Batch, named bool) {
	t.Helper()
	for _, r := range b.Refused {
		if leaks(r.Detail) {
			t.Fatalf("%.400s\nthe detail of the refusal is %q", data, r.Detail)
		}
	}
	for _, r := range b.Requests {
		if !named && leaks(fmt.Sprintf("%+v", r)) {
			t.Fatalf("%.400s\ngot %+v", data, r)
		}
	}
}

// TestSecretsAreNotKept puts a secret in every place of every sample, as a value and as a key, and between bytes, where
// it makes the JSON invalid. It decodes each result as every format.
func TestSecretsAreNotKept(t *testing.T) {
	for _, format := range Formats() {
		contentType, _ := ContentTypeOf(format)
		look := func(data []byte, named bool) {
			var b ingest.Batch
			Decode(Meta{ContentType: contentType, Pool: "p"}, data, ingest.DefaultLimits(), &b)
			checkSecret(t, data, &b, named)
		}
		for _, dir := range must(os.ReadDir("testdata")) {
			if dir.Name() == "fuzz" { // found by go test -fuzz
				continue
			}
			for _, sample := range samples(t, dir.Name()) {
				if len(sample) > 16<<10 || !utf8.Valid(sample) { // binary formats have no place for a JSON string
					continue
				}
				for line := range bytes.Lines(sample) {
					var tree any
					if json.Unmarshal(line, &tree) == nil {
						plant(tree, false, func(planted any, named bool) {
							data, _ := json.Marshal(planted)
							look(data, named)
						})
					}
				}
				step := 1 + len(sample)/30
				for i := 0; i <= len(sample); i += step {
					look(slices.Concat(sample[:i], []byte(secret), sample[i:]), true)
					look(slices.Concat(sample[:i], []byte(`"`+secret)), true)
					look(slices.Concat([]byte(secret), sample[i:]), true)
				}
			}
		}
	}
}

// plant calls look with copies of tree. Each has the secret in one place. If named is true, that is the place of a
// name, which is kept.
func plant(tree any, named bool, look func(planted any, named bool)) {
	escaped, _ := json.Marshal(map[string]string{"content": secret})
	look(secret, named)
	look(string(escaped), named)
	look([]any{secret}, named)
	look(map[string]any{"content": secret, secret: 1}, named)
	switch node := tree.(type) {
	case map[string]any:
		attribute, _ := node["key"].(string)
		name := otlp.fields.places[attribute]
		label := name.rank > 0 && (name.field <= fieldReplica || name.field == fieldResponseID || name.field >= fieldService)
		for _, key := range slices.Sorted(maps.Keys(node)) {
			with := maps.Clone(node)
			kept := nameKeys[key] || label && key == "value" || named && key == "stringValue"
			plant(node[key], kept, func(planted any, named bool) {
				with[key] = planted
				look(with, named)
			})
			with = maps.Clone(node)
			with[secret], with["content"] = node[key], secret
			delete(with, key)
			look(with, false)
		}
	case []any:
		for i := range node {
			with := slices.Clone(node)
			plant(node[i], named, func(planted any, named bool) {
				with[i] = planted
				look(with, named)
			})
		}
	}
}

// nameKeys are the keys of names in records, and the last key of each path to a name. Their values are kept.
var nameKeys = func() map[string]bool {
	keys := map[string]bool{}
	for _, m := range requestType.members {
		keys[m.name] = true
	}
	for i := range formats {
		if formats[i].foreign == nil {
			continue
		}
		for f, all := range formats[i].foreign.fields.paths {
			for _, path := range all {
				if field(f) != fieldSession {
					keys[path], keys[path[strings.LastIndexByte(path, '.')+1:]] = true, true
				}
			}
		}
	}
	return keys
}()
