package codec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forewarm/forewarm/ingest"
)

// dynamoLogs is an export of NVIDIA Dynamo's otel sink with rows, and with one other log line.
func dynamoLogs(service string, rows ...string) plog.Logs {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", service)
	records := resource.ScopeLogs().AppendEmpty().LogRecords()
	for _, row := range rows {
		r := records.AppendEmpty()
		r.Body().SetStr("request_end")
		r.Attributes().PutStr("schema", dynamoSchema)
		r.Attributes().PutStr("event_type", "request_end")
		r.Attributes().PutBool("payload_complete", true)
		r.Attributes().PutStr("payload", row)
	}
	records.AppendEmpty().Body().SetStr(secret)
	return logs
}

// TestOTLPLogs: in both encodings, rows give the same requests as over NATS. An unusable row does not affect the
// others.
func TestOTLPLogs(t *testing.T) {
	full := must(os.ReadFile(filepath.Join("testdata", "dynamo", "full.json")))
	compact := dynamoRow("")
	want := decode(Meta{ContentType: ContentTypeDynamo}, string(full))
	for name, tc := range map[string]struct {
		logs plog.Logs
		meta Meta
		want func(b *ingest.Batch)
	}{
		"a row":      {dynamoLogs("dynamo", string(full)), Meta{}, func(*ingest.Batch) {}},
		"a pool":     {dynamoLogs("dynamo", string(full)), Meta{Pool: "p", Class: "c"}, func(b *ingest.Batch) { b.Requests[0].Pool, b.Requests[0].Class = "p", "c" }},
		"a bad row":  {dynamoLogs("dynamo", `{"schema":"`+dynamoSchema+`"}`, string(full)), Meta{}, func(b *ingest.Batch) { b.Refused = []ingest.Refusal{{Reason: ingest.ReasonMissingField}} }},
		"not a row":  {dynamoLogs("dynamo", secret, string(full)), Meta{}, func(b *ingest.Batch) { b.Refused = []ingest.Refusal{{Reason: ingest.ReasonNotJSON}} }},
		"no request": {dynamoLogs("dynamo", `{"schema":"`+dynamoSchema+`","event_type":"tool_end"}`, string(full)), Meta{}, func(b *ingest.Batch) { b.Ignored++ }},
	} {
		want := &ingest.Batch{Requests: append([]ingest.Request(nil), want.Requests...), Ignored: 1}
		tc.want(want)
		b := decodeLogs(t, tc.meta, tc.logs)
		for i := range b.Refused {
			if leaks(b.Refused[i].Detail) {
				t.Errorf("%s: the refusal contains the secret: %+v", name, b.Refused[i])
			}
			b.Refused[i] = ingest.Refusal{Reason: b.Refused[i].Reason}
		}
		if d := diff(want, b); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if b := decodeLogs(t, Meta{}, dynamoLogs("vllm-east", compact)); len(b.Requests) != 1 || b.Requests[0].Pool != "vllm-east" {
		t.Errorf("a row without a model: %+v, want the pool of its service", b)
	}
	for _, contentType := range []string{ContentTypeOTLPLogs, ContentTypeOTLPLogsJSON} {
		for _, data := range []string{"\x0f\xff", "[]", `{"resourceSpans":[]}`, `{"resourceLogs":7}`, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[7]}]}]}`} {
			if b := decode(Meta{ContentType: contentType}, data); len(b.Refused) == 0 || len(b.Requests) > 0 {
				t.Errorf("%s as %s: %+v", data, contentType, b)
			}
		}
	}
}

// decodeLogs decodes an export in both encodings. The results must be equal.
func decodeLogs(t *testing.T, m Meta, logs plog.Logs) *ingest.Batch {
	t.Helper()
	proto := must((&plog.ProtoMarshaler{}).MarshalLogs(logs))
	text := must((&plog.JSONMarshaler{}).MarshalLogs(logs))
	m.ContentType = ContentTypeOTLPLogs
	b := decode(m, string(proto))
	m.ContentType = ContentTypeOTLPLogsJSON
	other := decode(m, string(text))
	if len(b.Refused) != len(other.Refused) {
		t.Errorf("protobuf refuses %+v, JSON %+v", b.Refused, other.Refused)
	}
	if d := diff(b.Requests, other.Requests); d != "" || b.Ignored != other.Ignored {
		t.Errorf("protobuf and JSON disagree (-protobuf +JSON):\n%s", d)
	}
	return b
}

func FuzzDecodeOTLPLogs(f *testing.F) {
	logs := dynamoLogs("dynamo", dynamoRow(""), "{")
	proto, _ := (&plog.ProtoMarshaler{}).MarshalLogs(logs)
	text, _ := (&plog.JSONMarshaler{}).MarshalLogs(logs)
	f.Add(true, proto)
	f.Add(false, text)
	f.Add(false, []byte(strings.Repeat(`{"resourceLogs":[`, 9)))
	f.Fuzz(func(t *testing.T, protobuf bool, data []byte) {
		contentType := ContentTypeOTLPLogsJSON
		if protobuf {
			contentType = ContentTypeOTLPLogs
		}
		var b ingest.Batch
		Decode(Meta{ContentType: contentType}, data, ingest.DefaultLimits(), &b)
		checkBatch(t, &b)
		checkStored(t, &b)
	})
}
