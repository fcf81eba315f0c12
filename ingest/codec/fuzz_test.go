package codec

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/forewarm/forewarm/ingest"
)

// FuzzDecodeJSON: any bytes become one valid record or one refusal. The result is that of the standard library.
func FuzzDecodeJSON(f *testing.F) {
	for _, sample := range samples(f, "json") {
		for kind := range KindAck + 1 {
			f.Add(uint8(kind), sample)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		b := ingest.Batch{}
		m := Meta{Kind: Kind(kind % uint8(KindAck+1))}
		Decode(m, data, ingest.DefaultLimits(), &b)
		n := checkBatch(t, &b)
		if b.Watermark != nil {
			n++
		}
		if n+len(b.Refused) != 1 {
			t.Fatalf("one message became %d records and %d refusals", n, len(b.Refused))
		}
		if n == 1 && !json.Valid(data) {
			t.Fatal("accepted invalid JSON")
		}
		if open := bytes.IndexByte(data, '{'); open >= 0 && json.Valid(data) && !bytes.HasPrefix(bytes.TrimSpace(data[open+1:]), []byte{'}'}) {
			nested := append(append(bytes.Clone(data[:open+1]), `"a_member_that_is_not_plain":{},`...), data[open+1:]...)
			if d := diff(&b, decode(m, string(nested))); n == 1 && d != "" {
				t.Fatalf("the scanner of plain records and the reader of all JSON differ: %s", d)
			}
		}
		compareWithReference(t, data, &b)
	})
}

func FuzzDecodeNDJSON(f *testing.F) {
	for _, format := range []string{"json", "ndjson", "sum"} {
		for _, sample := range samples(f, format) {
			f.Add(format == "sum", sample)
		}
	}
	f.Fuzz(func(t *testing.T, sums bool, data []byte) {
		m := Meta{ContentType: ContentTypeNDJSON, Pool: "p"}
		if sums {
			m.ContentType = ContentTypeSumNDJSON
		}
		limits := ingest.DefaultLimits()
		limits.BatchRecords = 20
		var b ingest.Batch
		Decode(m, data, limits, &b)
		n := checkBatch(t, &b) + len(b.Refused)
		lines := 0
		for line := range bytes.SplitSeq(data, []byte{'\n'}) {
			if len(bytes.Trim(line, " \t\r")) > 0 {
				lines++
			}
		}
		if want := min(max(lines, 1), limits.BatchRecords+1); n != want {
			t.Fatalf("%d lines became %d records and refusals, want %d", lines, n, want)
		}
	})
}

func FuzzDecodeProtobuf(f *testing.F) {
	for _, sample := range samples(f, "protobuf") {
		f.Add(sample)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var b ingest.Batch
		Decode(protobufMeta, data, ingest.DefaultLimits(), &b)
		n := checkBatch(t, &b)
		if b.Watermark != nil {
			n++
		}
		if n+len(b.Refused) == 0 {
			t.Fatal("neither a record nor a refusal")
		}
		refused := len(b.Refused)
		b.Refused = nil
		if d := diff(&b, decode(protobufMeta, string(AppendProtobuf(nil, &b)))); n > 0 && d != "" {
			t.Fatal(d)
		}
		m := producerBatch(t)
		if err := proto.Unmarshal(data, m); err != nil || refused > 0 {
			return
		}
		for number, want := range map[protoreflect.FieldNumber]int{
			batchRequests: len(b.Requests), batchSums: len(b.Sums), batchReplicas: len(b.Replicas), batchAcks: len(b.Acks),
		} {
			if n := m.Get(m.Descriptor().Fields().ByNumber(number)).List().Len(); n != want {
				t.Fatalf("%d records in field %d, the library finds %d: %v", want, number, n, m)
			}
		}
		requests := m.Get(m.Descriptor().Fields().ByNumber(batchRequests)).List()
		for i, r := range b.Requests {
			p := requests.Get(i).Message()
			get := func(name protoreflect.Name) protoreflect.Value { return p.Get(p.Descriptor().Fields().ByName(name)) }
			has := func(name protoreflect.Name) bool { return p.Has(p.Descriptor().Fields().ByName(name)) }
			if get("id").String() != r.ID || has("prompt_tokens") && get("prompt_tokens").Int() != r.PromptTokens ||
				has("prompt_tokens") && has("cached_tokens") && get("cached_tokens").Int() != r.CachedTokens || has("arrived_at") && get("arrived_at").Int() != r.ArrivedAt.UnixNano() {
				t.Fatalf("%+v, the library reads %v", r, p)
			}
		}
	})
}

// FuzzInflate compares with gzip of the standard library, and checks the bound of the result.
func FuzzInflate(f *testing.F) {
	for _, sample := range samples(f, EncodingGzip) {
		f.Add(sample)
	}
	const atMost = 1 << 16
	f.Fuzz(func(t *testing.T, data []byte) {
		d := Decoder{meta: Meta{Encoding: EncodingGzip}, limits: ingest.Limits{MessageBytes: atMost}}
		plain := d.inflate(data)
		reason, detail := d.refusal.Reason, d.refusal.Detail
		if reason == "" && len(plain) > atMost || cap(d.plain) > 4*atMost || (reason == "") != (detail == "") {
			t.Fatalf("%d bytes in a buffer of %d, %q %q", len(plain), cap(d.plain), reason, detail)
		}
		want, err := io.ReadAll(io.LimitReader(newGzip(data), atMost+1))
		if valid := err == nil && len(want) <= atMost; valid != (reason == "") || valid && !bytes.Equal(plain, want) {
			t.Fatalf("%d bytes, %q %q; the standard library gives %d and %v", len(plain), reason, detail, len(want), err)
		}
	})
}

func newGzip(data []byte) io.Reader {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return iotest.ErrReader(errors.New("no header: " + err.Error())) // io.EOF would be an empty stream
	}
	return r
}

// samples reads the samples of a format.
func samples(t testing.TB, format string) [][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", format, "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples of %s: %v", format, err)
	}
	var all [][]byte
	for _, path := range paths {
		data := must(os.ReadFile(path))
		all = append(all, data)
	}
	return all
}

// checkBatch checks that all decoded records are valid, as later stages expect, and returns their number.
func checkBatch(t *testing.T, b *ingest.Batch) int {
	t.Helper()
	limits := ingest.DefaultLimits()
	label := func(s string) {
		if len(s) > limits.LabelBytes || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }) {
			t.Fatalf("label %q", s)
		}
	}
	count := func(n, limit int64) {
		if n < ingest.Unknown || n > limit {
			t.Fatalf("count %d", n)
		}
	}
	instant := func(at time.Time) {
		if !at.IsZero() && (at.Year() < 2000 || at.Year() >= 2200 || at.Location() != time.UTC) {
			t.Fatalf("time %v", at)
		}
	}
	for _, r := range b.Requests {
		for _, s := range []string{r.ID, r.Pool, r.Class, r.Model, r.Tenant, r.Tier, r.Feature, r.Route, r.Region, r.ReplicaName} {
			label(s)
		}
		for _, n := range []int64{r.PromptTokens, r.CachedTokens, r.OutputTokens, r.MaxOutputTokens, int64(r.Attempt)} {
			count(n, limits.Tokens)
		}
		for _, at := range []time.Time{r.ArrivedAt, r.StartedAt, r.FirstTokenAt, r.FinishedAt} {
			instant(at)
			if !r.FinishedAt.IsZero() && at.After(r.FinishedAt) {
				t.Fatalf("ends at %v, before %v", r.FinishedAt, at)
			}
		}
		if r.Pool == "" || r.EventTime().IsZero() || r.PromptTokens < 0 && r.Status == ingest.StatusOK || r.CachedTokens > r.PromptTokens ||
			r.Attempt < 1 || r.Phase >= phaseAbsent || r.Status >= statusAbsent {
			t.Fatalf("request %+v", r)
		}
	}
	for _, s := range b.Sums {
		label(s.Pool)
		label(s.Class)
		instant(s.Start)
		for _, f := range []float64{s.Requests, s.PromptTokens, s.CachedTokens, s.OutputTokens} {
			if f < 0 || math.Signbit(f) || f > float64(limits.SumTokens) {
				t.Fatalf("amount %g", f)
			}
		}
		if s.Pool == "" || s.Start.IsZero() || s.CachedTokens > s.PromptTokens {
			t.Fatalf("sum %+v", s)
		}
	}
	for _, r := range b.Replicas {
		label(r.Pool)
		label(r.Name)
		instant(r.At)
		for _, n := range []int64{r.KVCapacityTokens, r.KVUsedTokens, r.Running, r.Waiting, r.PreemptionsTotal, r.PrefixHitsTotal, r.PrefixQueryTotal} {
			count(n, counterLimit)
		}
		if r.Pool == "" || r.Name == "" || r.At.IsZero() || r.State >= replicaStateAbsent || r.KVUsedRatio < 0 || r.KVUsedRatio > 1 ||
			r.KVCapacityTokens >= 0 && r.KVUsedTokens > r.KVCapacityTokens {
			t.Fatalf("replica %+v", r)
		}
	}
	for _, a := range b.Acks {
		label(a.Pool)
		label(a.EventID)
		instant(a.At)
		count(a.Generation, counterLimit)
		if a.Pool == "" || a.EventID == "" || a.At.IsZero() || a.Stage >= ackStageAbsent {
			t.Fatalf("ack %+v", a)
		}
	}
	for _, h := range b.Histories {
		for _, s := range []string{h.Pool, h.Class, h.Dimension} {
			if label(s); s == "" {
				t.Fatalf("history %+v", h)
			}
		}
		instant(h.Start)
		if h.Start.IsZero() || len(h.Values) == 0 || len(h.Values) > ingest.MaxHistoryMinutes {
			t.Fatalf("history %+v", h)
		}
		for _, v := range h.Values {
			if v < 0 || math.Signbit(v) && !math.IsNaN(v) || v > float64(limits.SumTokens) {
				t.Fatalf("amount %g", v)
			}
		}
	}
	for _, r := range b.Refused {
		if r.Reason == "" || r.Detail == "" {
			t.Fatalf("refusal %+v", r)
		}
	}
	return len(b.Requests) + len(b.Sums) + len(b.Replicas) + len(b.Acks) + len(b.Histories)
}

// compareWithReference compares an accepted request with what the standard library reads.
func compareWithReference(t *testing.T, data []byte, b *ingest.Batch) {
	t.Helper()
	if len(b.Requests) != 1 {
		return
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	r := b.Requests[0]
	for name, got := range map[string]string{"id": r.ID, "pool": r.Pool, "class": r.Class, "tenant": r.Tenant} {
		if want, _ := fields[name].(string); want != got && fields[name] != nil {
			t.Fatalf("%s is %q, want %q", name, got, want)
		}
	}
	for name, got := range map[string]int64{"prompt_tokens": r.PromptTokens, "cached_tokens": r.CachedTokens, "output_tokens": r.OutputTokens} {
		if want, ok := fields[name].(float64); ok && int64(want) != got {
			t.Fatalf("%s is %d, want %g", name, got, want)
		}
	}
}
