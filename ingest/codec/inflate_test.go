package codec

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/forewarm/forewarm/ingest"
)

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestDecodeInflates decodes every sample plain and compressed.
func TestDecodeInflates(t *testing.T) {
	for format, contentType := range map[string]string{"json": ContentTypeJSON, "ndjson": ContentTypeNDJSON, "protobuf": ContentTypeProtobuf} {
		for _, sample := range samples(t, format) {
			plain := decode(Meta{ContentType: contentType, Pool: "p"}, string(sample))
			for _, tc := range []struct {
				encoding string
				data     []byte
			}{
				{"", sample}, {"identity", sample}, {"gzip", gzipped(t, sample)}, {"X-GZIP", gzipped(t, sample)},
				{"gzip", append(gzipped(t, sample[:len(sample)/2]), gzipped(t, sample[len(sample)/2:])...)},
			} {
				got := decode(Meta{ContentType: contentType, Pool: "p", Encoding: tc.encoding}, string(tc.data))
				if d := diff(plain, got); d != "" {
					t.Errorf("%s, %s: %s", format, tc.encoding, d)
				}
			}
		}
	}
}

func TestDecodeRefusesToInflate(t *testing.T) {
	record := []byte(`{"pool":"p","prompt_tokens":7,"arrived_at":` + atMS + `}` + strings.Repeat(" ", 100))
	limits := ingest.DefaultLimits()
	limits.MessageBytes = 64 << 10
	bomb := append(record, make([]byte, 32<<20)...)
	corrupt := func(data []byte, at int) []byte {
		data[at] ^= 0xff
		return data
	}
	gz := gzipped(t, record)
	for name, tc := range map[string]struct {
		encoding string
		data     []byte
		want     ingest.Reason
	}{
		"zstd":                 {"zstd", record, ingest.ReasonUnknownFormat},
		"stacked":              {"gzip, br", gz, ingest.ReasonUnknownFormat},
		"unknown":              {"br", record, ingest.ReasonUnknownFormat},
		"gzip, plain text":     {"gzip", record, ingest.ReasonBadEncoding},
		"gzip, empty":          {"gzip", nil, ingest.ReasonTruncated},
		"gzip, header cut":     {"gzip", gz[:5], ingest.ReasonTruncated},
		"gzip, cut":            {"gzip", gz[:len(gz)/2], ingest.ReasonTruncated},
		"gzip, trailer cut":    {"gzip", gz[:len(gz)-1], ingest.ReasonTruncated},
		"gzip, checksum":       {"gzip", corrupt(gzipped(t, record), len(gz)-5), ingest.ReasonBadEncoding},
		"gzip, garbage behind": {"gzip", append(gzipped(t, record), "garbage after the end"...), ingest.ReasonBadEncoding},
		"gzip, bomb":           {"gzip", gzipped(t, bomb), ingest.ReasonTooLarge},
		"gzip, one over":       {"gzip", gzipped(t, bomb[:limits.MessageBytes+1]), ingest.ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var b ingest.Batch
			Decode(Meta{Encoding: tc.encoding}, tc.data, limits, &b)
			if len(b.Requests) > 0 || len(b.Refused) != 1 || b.Refused[0].Reason != tc.want {
				t.Errorf("%d records, refused %+v, want %s", len(b.Requests), b.Refused, tc.want)
			}
			d := Decoder{meta: Meta{Encoding: tc.encoding}, limits: limits}
			d.inflate(tc.data)
			if most := 4 * limits.MessageBytes; cap(d.plain) > most {
				t.Errorf("needed a buffer of %d bytes, want at most %d", cap(d.plain), most)
			}
		})
	}
	var b ingest.Batch
	Decode(Meta{Encoding: "gzip"}, gzipped(t, append(record, bytes.Repeat([]byte(" "), limits.MessageBytes-len(record))...)), limits, &b)
	if len(b.Requests) != 1 {
		t.Errorf("at the limit: %+v", b.Refused)
	}
}

func TestInflateAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the number of allocations is different under the race detector")
	}
	b := typical(100)
	plain := AppendProtobuf(nil, &b)
	m, data := protobufMeta, gzipped(t, plain)
	m.Encoding = EncodingGzip
	var got ingest.Batch
	if n := testing.AllocsPerRun(50, func() {
		got.Reset()
		Decode(m, data, ingest.DefaultLimits(), &got)
	}); n > 110 || len(got.Requests) != 100 { // 100 of them ids
		t.Errorf("%g allocations for %d records", n, len(got.Requests))
	}
}
