package codec

import "strings"

// texts makes strings of bytes that do not recur, hundreds to an allocation. A string stays valid for ever, and keeps the
// others of its chunk in memory as long as it is referenced.
type texts struct{ chunk strings.Builder }

// textChunk is what texts allocates at once, in bytes.
const textChunk = 16 << 10

func (t *texts) of(b []byte) string {
	if t.chunk.Cap()-t.chunk.Len() < len(b) {
		t.chunk = strings.Builder{}
		t.chunk.Grow(max(textChunk, len(b)))
	}
	start := t.chunk.Len()
	t.chunk.Write(b)
	return t.chunk.String()[start:]
}

// maxNames bounds the names that a Decoder remembers.
const maxNames = 1 << 16

// names makes strings of bytes that recur, as labels do. A string that was made before is given again, which allocates
// nothing. When maxNames are remembered, all are forgotten.
type names map[string]string

func (n *names) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if text, ok := (*n)[string(b)]; ok {
		return text
	}
	if *n == nil || len(*n) >= maxNames {
		*n = names{}
	}
	text := string(b)
	(*n)[text] = text
	return text
}
