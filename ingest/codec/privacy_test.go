package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

// secret stands for prompt text. No twelve bytes of it may be kept.
const secret = "my passphrase is Correct Horse: 4111 1111 1111 1111, \"tell nobody\" {or else}"

// secretRuns are the runs of twelve bytes of the secret, in clear and escaped.
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

// checkSecret checks that b kept nothing of the secret; in its records only where it was not planted as a name.
func checkSecret(t *testing.T, data []byte, b *ingest.Batch, named bool) {
	t.Helper()
	for _, r := range b.Refused {
		if leaks(string(r.Record)) || leaks(r.Detail) {
			t.Fatalf("%.400s\nis refused with detail %q and record %q", data, r.Detail, r.Record)
		}
	}
	for _, r := range b.Requests {
		if !named && leaks(fmt.Sprintf("%+v", r)) {
			t.Fatalf("%.400s\nbecame %+v", data, r)
		}
	}
}

// TestSecretsAreNotKept plants a sentence in every place of every sample, as a value, as a key, inside and around what
// stands there, and at every byte, where it breaks the JSON; and decodes each as every format.
func TestSecretsAreNotKept(t *testing.T) {
	for _, format := range Formats() {
		contentType, _ := ContentTypeOf(format)
		look := func(data []byte, named bool) {
			var b ingest.Batch
			Decode(Meta{ContentType: contentType, Pool: "p"}, data, ingest.DefaultLimits(), &b)
			checkSecret(t, data, &b, named)
		}
		for _, dir := range []string{"json", "ndjson", "sum", "dynamo", "litellm", "openai", "envoy", "sglang", "kong", "otlp-json"} {
			for _, sample := range samples(t, dir) {
				if len(sample) > 16<<10 {
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

// plant calls look with copies of tree that have the secret in one place each. named says that the place is one for names,
// which are kept.
func plant(tree any, named bool, look func(planted any, named bool)) {
	escaped, _ := json.Marshal(map[string]string{"content": secret})
	look(secret, named)
	look(string(escaped), named)
	look([]any{secret}, named)
	look(map[string]any{"content": secret, secret: 1}, named)
	switch node := tree.(type) {
	case map[string]any:
		attribute, _ := node["key"].(string)
		name := otlpFields.at([]byte(attribute))
		label := name != nil && name.leaf && (name.field <= fieldReplica || name.field == fieldResponseID || name.field >= fieldService)
		for _, key := range slices.Sorted(maps.Keys(node)) {
			with := maps.Clone(node)
			kept := identifying[key] > 0 || key == "request_tags" || label && key == "value" || named && key == "stringValue"
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

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":"req-1","prompt":"hello","prompt_tokens":7,"arrived_at":"2026-11-21T06:00:00Z"}`: `{"id":"req-1","prompt":"<5>","prompt_tokens":7,"arrived_at":"2026-11-21T06:00:00Z"}`,
		`{"id":"two words","status":"ok","pool":null,"stream":true,"x":-1.5e3}`:                 `{"id":"<9>","status":"ok","pool":null,"stream":true,"x":-1.5e3}`,
		"{\n  \"id\" : \"a\" ,\n\n  \"x y\" : 1\n}\n":                                           "{\n\"id\":\"a\",\n\"<3>\":1\n}\n",
		`{"prompt":[15496,995]}`:                      `{"prompt":[~,~]}`,
		`{"messages":[{"role":"user","content":""}]}`: `{"messages":[{"role":"<4>","content":"<0>"}]}`,
		`{"id":"a\"b","pool":"p"}`:                    `{"id":"<4>","pool":"p"}`,
		`{"pool":"p","prompt":"cut he`:                `{"pool":"p","prompt":"<6>`,
		`{"prompt":"he said "hello there" to me"}`:    `{"prompt":"<8>"~"<6>"}`,
		`{"n":12345678901234567890123456}`:            `{"n":~}`,
		`{"n":12 34}`:                                 `{"n":~}`,
		`hello`:                                       ``,
		"\x1f\x8b\x08":                                ``,
	} {
		if got := string(Redact([]byte(in), 4096)); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", in, got, want)
		}
	}
	long := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `","b":1}`)
	if got := string(Redact(long, 4096)); got != `{"a":"<65530>` {
		t.Errorf("a long string becomes %s", got)
	}
	if got := len(Redact(bytes.Repeat([]byte("["), 1<<20), 100)); got != 100 {
		t.Errorf("%d bytes, want 100", got)
	}
}
