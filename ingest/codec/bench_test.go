package codec

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// wireRecord is a request as encoding/json reads it.
type wireRecord struct {
	ID, Pool, Class, Model, Tenant, Tier, Feature, Route, Region, Replica, Phase, Status, Session string

	Attempt         *int64
	ArrivedAt       any    `json:"arrived_at"`
	StartedAt       any    `json:"started_at"`
	FirstTokenAt    any    `json:"first_token_at"`
	FinishedAt      any    `json:"finished_at"`
	PromptTokens    *int64 `json:"prompt_tokens"`
	CachedTokens    *int64 `json:"cached_tokens"`
	OutputTokens    *int64 `json:"output_tokens"`
	MaxOutputTokens *int64 `json:"max_output_tokens"`
}

// jsonRecords writes requests with times in milliseconds, as Append does, and as dates.
func jsonRecords(requests []ingest.Request) (millis, dates [][]byte) {
	for i := range requests {
		r := &requests[i]
		record := Append(nil, r)
		millis = append(millis, record)
		for _, t := range []time.Time{r.ArrivedAt, r.StartedAt, r.FirstTokenAt, r.FinishedAt} {
			date := t.AppendFormat(nil, `"2006-01-02T15:04:05.000Z07:00"`)
			record = bytes.Replace(record, strconv.AppendInt(nil, t.UnixMilli(), 10), date, 1)
		}
		dates = append(dates, record)
	}
	return millis, dates
}

// BenchmarkDecodeJSON also reports how many times faster the decoder is than the standard library in the same run.
func BenchmarkDecodeJSON(b *testing.B) {
	meta := Meta{Pool: "llama-70b", Class: "chat", Source: "gateway-1", ContentType: ContentTypeJSON}
	batch := typical(64)
	millis, dates := jsonRecords(batch.Requests)
	for name, records := range map[string][][]byte{"milliseconds": millis, "dates": dates} {
		b.Run(name, func(b *testing.B) {
			start := time.Now()
			for i := range 5000 {
				if err := json.Unmarshal(records[i%len(records)], new(wireRecord)); err != nil {
					b.Fatal(err)
				}
			}
			reference, next := time.Since(start)/5000, 0
			b.SetBytes(int64(len(records[0])))
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset()
				next++
				Decode(meta, records[next%len(records)], ingest.DefaultLimits(), &batch)
			}
			if len(batch.Requests) != 1 {
				b.Fatal(batch.Refused)
			}
			b.ReportMetric(float64(reference)*float64(b.N)/float64(b.Elapsed()), "x/json.Unmarshal")
		})
	}
}

func BenchmarkDecodeProtobuf100(b *testing.B) {
	const records = 100
	batch := typical(records)
	data := AppendProtobuf(nil, &batch)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset()
		Decode(protobufMeta, data, ingest.DefaultLimits(), &batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}
