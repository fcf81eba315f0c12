package codec

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

// FuzzDecodeForeign checks that any bytes become valid records or refusals. A secret inserted anywhere is in neither of
// them. A prompt added to a record changes nothing. Each foreign format has samples in a folder of its name.
func FuzzDecodeForeign(f *testing.F) {
	var foreign []format
	for _, format := range formats {
		if format.foreign != nil {
			for _, sample := range samples(f, format.name) {
				f.Add(uint8(len(foreign)), sample, uint16(len(sample)/2))
			}
			foreign = append(foreign, format)
		}
	}
	body, _ := json.Marshal(map[string]any{"messages": []string{secret}, "prompt": secret, "choices": map[string]string{secret: secret}})
	f.Fuzz(func(t *testing.T, format uint8, data []byte, at uint16) {
		decode := func(data []byte, named bool) *ingest.Batch {
			b := ingest.Batch{}
			Decode(Meta{ContentType: foreign[int(format)%len(foreign)].contentType}, data, ingest.DefaultLimits(), &b)
			checkBatch(t, &b)
			checkSecret(t, data, &b, named)
			checkStored(t, &b)
			return &b
		}
		plain := decode(data, false)
		i := min(int(at), len(data))
		decode(slices.Concat(data[:i], []byte(secret), data[i:]), true)

		object := bytes.TrimSpace(data)
		if len(object) < 3 || object[0] != '{' || !json.Valid(object) || len(plain.Requests) == 0 {
			return
		}
		with := decode(slices.Concat(body[:len(body)-1], []byte{','}, object[1:]), false)
		if d := diff(plain.Requests, with.Requests); d != "" {
			t.Fatalf("a prompt changes the decoded request (-without +with):\n%s", d)
		}
	})
}

// checkStored checks that accepted requests are the same after they were stored as native records, as listeners do.
func checkStored(t *testing.T, b *ingest.Batch) {
	t.Helper()
	if len(b.Requests) == 0 {
		return
	}
	stored := decode(protobufMeta, string(AppendProtobuf(nil, &ingest.Batch{Requests: b.Requests})))
	if d := diff(b.Requests, stored.Requests); d != "" || len(stored.Refused) > 0 {
		t.Fatalf("stored requests differ (-accepted +stored), refused %+v:\n%s", stored.Refused, d)
	}
}
