package codec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// read decodes a message of a foreign format. It returns the requests as native JSON, then the number of ignored
// records, then the reasons of refusals.
func read(format string, data []byte, meta Meta) string {
	meta.ContentType, _ = ContentTypeOf(format)
	var b ingest.Batch
	Decode(meta, data, ingest.DefaultLimits(), &b)
	var out strings.Builder
	for i := range b.Requests {
		out.Write(Append(nil, &b.Requests[i]))
		out.WriteByte('\n')
	}
	if b.Ignored > 0 {
		fmt.Fprintln(&out, "ignored", b.Ignored)
	}
	for _, r := range b.Refused {
		fmt.Fprintln(&out, r.Reason)
	}
	return out.String()
}

// TestForeignSamples decodes the samples. They are written by hand from documented schemas, or recorded from the
// libraries that a comment names.
func TestForeignSamples(t *testing.T) {
	for sample, want := range map[string][]string{
		"litellm/success.json": {
			`{"id":"chatcmpl-9f1c2","pool":"llama-70b","class":"chat","model":"llama-70b","tenant":"acme","arrived_at":1795240800125,"first_token_at":1795240800900,"finished_at":1795240807400,"prompt_tokens":3120,"cached_tokens":2048,"output_tokens":260,"feature":"assistant","route":"acompletion","replica":"b68d56d76b0c","max_output_tokens":1024}`,
		},
		"litellm/array.json": { // the second request was answered from the proxy's cache
			`{"id":"a-1","pool":"llama-70b","model":"llama-70b","tenant":"batch","arrived_at":1795240800125,"finished_at":1795240801000,"prompt_tokens":20,"output_tokens":10,"route":"completion"}`,
			`{"id":"a-3","pool":"bge-m3","model":"bge-m3","arrived_at":1795240802000,"finished_at":1795240802250,"prompt_tokens":512,"output_tokens":0,"route":"aembedding"}`,
			"ignored 1",
		},
		"litellm/failures.ndjson": {
			`{"id":"f-1","pool":"llama-70b","model":"llama-70b","tenant":"acme","arrived_at":1795240800000,"finished_at":1795240800010,"output_tokens":0,"route":"acompletion","phase":"rejected","status":"rejected"}`,
			`{"id":"f-2","pool":"llama-70b","model":"llama-70b","arrived_at":1795240801000,"first_token_at":1795240802000,"finished_at":1795240811000,"prompt_tokens":900,"output_tokens":41,"route":"acompletion","phase":"finished","status":"error"}`,
			`{"id":"f-3","pool":"llama-70b","model":"llama-70b","arrived_at":1795240802000,"finished_at":1795240802500,"output_tokens":0,"route":"acompletion","phase":"finished","status":"error"}`,
		},
		"litellm/bad_element.json": {
			`{"id":"b-1","pool":"llama-70b","model":"llama-70b","arrived_at":1795240800000,"finished_at":1795240801000,"prompt_tokens":20,"output_tokens":10}`,
			"bad_time", "not_json",
		},
		"litellm/bad_truncated.json": {
			`{"id":"c-1","pool":"llama-70b","model":"llama-70b","arrived_at":1795240800000,"finished_at":1795240801000,"prompt_tokens":20,"output_tokens":10}`,
			"truncated",
		},
		"openai/chat.json": {
			`{"id":"chatcmpl-B9MBs8","pool":"gpt-oss-120b","model":"gpt-oss-120b","arrived_at":1795240800000,"prompt_tokens":1117,"cached_tokens":1024,"output_tokens":46,"tier":"default"}`,
		},
		"openai/responses.json": {
			`{"id":"resp_67ccd3a9","pool":"gpt-oss-120b","model":"gpt-oss-120b","tenant":"customer-12","arrived_at":1795240800000,"finished_at":1795240803000,"prompt_tokens":328,"cached_tokens":256,"output_tokens":52,"session_hash":"b3f218c3c3df4ce8","max_output_tokens":512}`,
		},
		"openai/wrapped.ndjson": {
			`{"id":"w-1","pool":"gpt-oss","class":"chat","model":"gpt-oss-120b","tenant":"acme","arrived_at":1795240800125,"first_token_at":1795240800400,"finished_at":1795240803500,"prompt_tokens":1117,"output_tokens":46}`,
			`{"id":"w-2","pool":"gpt-oss","model":"gpt-oss-120b","arrived_at":1795240801125,"first_token_at":1795240801400,"finished_at":1795240804500,"prompt_tokens":12,"output_tokens":3}`,
			`{"id":"batch_req_1","pool":"gpt-oss-120b","model":"gpt-oss-120b","arrived_at":1795240802000,"prompt_tokens":22,"output_tokens":2}`,
		},
		"openai/anthropic.json": { // 105 + 200 written + 7123 read
			`{"id":"msg_013Zva","pool":"claude-compatible","model":"claude-compatible","finished_at":1795240804000,"prompt_tokens":7428,"cached_tokens":7123,"output_tokens":39}`,
		},
		"openai/embedding.json": {
			`{"pool":"bge-m3","model":"bge-m3","arrived_at":1795240800000,"prompt_tokens":8,"output_tokens":0}`,
		},
		"openai/bad_usage.json": {"missing_field"}, // no time
		"envoy/access.json": {
			`{"id":"83b63da3-45a9-4196-98b8-1a7f697d6d8d","pool":"llama-70b","model":"llama-70b","arrived_at":1795240800125,"finished_at":1795240801651,"prompt_tokens":15,"output_tokens":7,"route":"/v1/chat/completions","replica":"10.0.0.9:8000"}`,
		},
		"envoy/access.ndjson": { // the last two are a list of models and a tool call
			`{"id":"e-1","pool":"llama-70b","model":"llama-70b","tenant":"acme","arrived_at":1795240800125,"finished_at":1795240802125,"prompt_tokens":1200,"output_tokens":80,"route":"/v1/chat/completions"}`,
			`{"id":"e-2","pool":"llama-70b","model":"llama-70b","arrived_at":1795240801125,"finished_at":1795240801128,"route":"/v1/chat/completions","phase":"rejected","status":"rejected"}`,
			`{"id":"e-3","pool":"llama-70b","model":"llama-70b","arrived_at":1795240802125,"finished_at":1795240803025,"prompt_tokens":700,"route":"/v1/chat/completions","phase":"cancelled","status":"cancelled"}`,
			"ignored 2",
		},
		"envoy/bad_tokens.json": {"missing_field"},
		"sglang/metrics.log": { // the second has a time of another clock; the third is a health check
			`{"id":"8c1a","pool":"qwen3-32b","model":"qwen3-32b","arrived_at":1795240800125,"started_at":1795240800137,"first_token_at":1795240800300,"finished_at":1795240801500,"prompt_tokens":812,"cached_tokens":640,"output_tokens":44,"session_hash":"65f6e62a6454c70b","max_output_tokens":256}`,
			`{"id":"8c1b","pool":"qwen3-32b","model":"qwen3-32b","arrived_at":1795240801000,"finished_at":1795240801500,"output_tokens":0,"phase":"rejected","status":"rejected"}`,
			"ignored 1",
		},
		"sglang/bad_lines.log": {"missing_field", "truncated"},
		"kong/http-log.ndjson": { // the last two are a health check and an answer from the cache
			`{"id":"9a1b","pool":"qwen3-32b","model":"qwen3-32b","tenant":"acme","arrived_at":1795240800125,"first_token_at":1795240800400,"finished_at":1795240802125,"prompt_tokens":812,"cached_tokens":640,"output_tokens":44,"route":"chat","session_hash":"0fa26c5e979a0bf7"}`,
			`{"id":"9a1c","pool":"qwen3-32b","model":"qwen3-32b","arrived_at":1795240801125,"finished_at":1795240801128,"route":"chat","phase":"rejected","status":"rejected"}`,
			"ignored 2",
		},
		"kong/bad_tokens.json": {"missing_field"},
		"otlp-json/ai_sdk_5.json": { // ai 5.0.277 and @ai-sdk/anthropic 2: cached tokens are only in provider metadata
			`{"id":"msg_01AAAAAAAAAAAAAAAAAAAA0.07293336343967916","pool":"claude-x","model":"claude-x","tenant":"umbrella","arrived_at":1795240800000,"finished_at":1795240800044,"prompt_tokens":2100,"output_tokens":42,"feature":"summarise","session_hash":"0fa26c5e979a0bf7"}`,
			`{"id":"86553c34310e40b4682c91be1b17c484-980773d6740341ee","pool":"text-embedding-3","model":"text-embedding-3","tenant":"umbrella","arrived_at":1795240800000,"finished_at":1795240800005,"prompt_tokens":77,"output_tokens":0,"feature":"summarise","session_hash":"0fa26c5e979a0bf7"}`,
			"ignored 1",
		},
		"otlp-json/ai_sdk_7.json": { // ai 7.0.173 and @ai-sdk/otel
			`{"id":"chatcmpl-2935eaee13838abcdefabcdef","pool":"gpt-s","model":"gpt-s","arrived_at":1795240800000,"first_token_at":1795240800177,"finished_at":1795240800377,"prompt_tokens":500,"cached_tokens":256,"output_tokens":60}`,
			`{"id":"d46d765fae63c7975a105a40019c1feb-0fb56c47faa66b4e","pool":"limited-x","model":"limited-x","arrived_at":1795240800000,"finished_at":1795240800010,"phase":"rejected","status":"rejected"}`,
			"ignored 4",
		},
		"otlp-json/openllmetry.json": { // @traceloop/instrumentation-anthropic 0.27: the prompt is without cached tokens
			`{"id":"5e988569d7fb05c22021795229bd99bc-8269fdbc6853ca3c","pool":"claude-x","model":"claude-x","arrived_at":1795240800000,"finished_at":1795240800052,"prompt_tokens":2100,"cached_tokens":900,"output_tokens":42,"max_output_tokens":100}`,
		},
		"otlp-json/openinference.json": { // instrumentations of @anthropic-ai/sdk 1.13, which also has its own spans, and of Bedrock
			`{"id":"f19a4c36c0196ee5e1a2a7a0b58a5728-a988fa304313946c","pool":"limited-c","model":"limited-c","arrived_at":1795240800000,"finished_at":1795240800018,"phase":"rejected","status":"rejected"}`,
			`{"id":"4b382cc224b7dffedca603662def19ab-baff27d7909989eb","pool":"claude-conv","model":"claude-conv","arrived_at":1795240800000,"finished_at":1795240800055,"prompt_tokens":3300,"output_tokens":42}`,
			`{"id":"27d16b1e21e67be9fc7087f446813b36-5a7ee756f2d2ad0a","pool":"claude-inv","model":"claude-inv","arrived_at":1795240800000,"finished_at":1795240800016,"prompt_tokens":2100,"cached_tokens":900,"output_tokens":42}`,
			"ignored 1",
		},
	} {
		data := must(os.ReadFile(filepath.Join("testdata", sample)))
		if d := diff(strings.Join(want, "\n")+"\n", read(filepath.Dir(sample), data, Meta{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", sample, d)
		}
	}
}

// TestForeignFields changes one part of a valid record at a time.
func TestForeignFields(t *testing.T) {
	const (
		litellm = `{"id":"i","status":"success","startTime":1795240800,"endTime":1795240802,"model":"m","prompt_tokens":20,"completion_tokens":10}`
		openai  = `{"id":"i","object":"chat.completion","created":1795240800,"model":"m","usage":{"prompt_tokens":20,"completion_tokens":10}}`
		envoy   = `{"x-request-id":"i","start_time":"2026-11-21T06:00:00Z","duration":2000,"response_code":200,"gen_ai.request.model":"m","gen_ai.usage.input_tokens":20,"gen_ai.usage.output_tokens":10}`
		sglang  = `{"id":"i","request_received_ts":1795240800,"e2e_latency":2,"request_parameters":"{\"model\":\"m\"}","prompt_tokens":20,"completion_tokens":10}`
		kong    = `{"request":{"id":"i","method":"POST"},"response":{"status":200},"latencies":{"request":2000},"started_at":1795240800000,"ai":{"proxy":{"usage":{"prompt_tokens":20,"completion_tokens":10},"meta":{"request_model":"m"}}}}`
	)
	for _, tc := range []struct {
		name, format, record string
		change               []string // pairs of old and new text
		want                 string   // part of the result
	}{
		{"cache hit", "litellm", litellm, []string{`"id"`, `"cache_hit":"True","id"`}, "ignored 1"},
		{"no cache", "litellm", litellm, []string{`"id"`, `"cache_hit":"None","id"`}, `"prompt_tokens":20,"output_tokens":10`},
		{"status of another version", "litellm", litellm, []string{`"success"`, `"perhaps"`}, `"prompt_tokens":20,"output_tokens":10`},
		{"status of another version, no counts", "litellm", litellm, []string{`"success"`, `"perhaps"`, `:20,`, `:null,`, `:10}`, `:null}`}, "bad_enum"},
		{"ranks documents", "litellm", litellm, []string{`"id"`, `"call_type":"arerank","id"`, `:20,`, `:0,`, `:10}`, `:0}`}, "ignored 1"},
		{"ranks documents, counted", "litellm", litellm, []string{`"id"`, `"call_type":"arerank","id"`}, `"prompt_tokens":20`},
		{"transcribes", "litellm", litellm, []string{`"id"`, `"call_type":"atranscription","id"`}, "ignored 1"},
		{"reasoning of xAI", "openai", openai, []string{`:10}`, `:10,"total_tokens":124,"completion_tokens_details":{"reasoning_tokens":94}}`}, `"prompt_tokens":20,"output_tokens":104`},
		{"billed tokens of Cohere", "openai", openai, []string{`{"prompt_tokens":20,"completion_tokens":10}`, `{"billed_units":{"input_tokens":5,"output_tokens":9},"tokens":{"input_tokens":20,"output_tokens":10}}`}, `"prompt_tokens":20,"output_tokens":10`},
		{"start 0", "litellm", litellm, []string{`"startTime":1795240800`, `"startTime":0.0`}, `"model":"m","finished_at":1795240802000`},
		{"start is the zero time of Go", "litellm", litellm, []string{`"startTime":1795240800`, `"startTime":"0001-01-01T00:00:00Z"`}, `"model":"m","finished_at":1795240802000`},
		{"busy", "litellm", litellm, []string{`"success"`, `"failure","error_information":{"error_code":"503"}`, `:20,`, `:0,`, `:10}`, `:0}`}, `"status":"rejected"`},
		{"client left", "litellm", litellm, []string{`"success"`, `"failure","error_information":{"error_code":499}`}, `"arrived_at":1795240800000,"finished_at":1795240802000,"prompt_tokens":20,"output_tokens":10,"phase":"cancelled","status":"cancelled"`},
		{"busy by name", "litellm", litellm, []string{`"success"`, `"failure","error_information":{"error_code":"","error_class":"RateLimitError"}`}, `"status":"rejected"`},
		{"fault by name", "litellm", litellm, []string{`"success"`, `"failure","error_information":{"error_class":"BadRequestError"}`}, `"status":"error"`},
		{"no limit", "litellm", litellm, []string{`"id"`, `"model_parameters":{"max_tokens":-1},"id"`}, `"output_tokens":10}`},
		{"no code", "litellm", litellm, []string{`"success"`, `"failure","error_information":{"error_code":""}`}, `"status":"error"`},
		{"prefix cache", "litellm", litellm, []string{`"id"`, `"metadata":{"usage_object":{"prompt_tokens_details":{"cached_tokens":"16"}}},"id"`}, `"cached_tokens":16`},
		{"exclusive", "litellm", litellm, []string{`"id"`, `"metadata":{"usage_object":{"cache_read_input_tokens":80,"cache_creation_input_tokens":5}},"id"`}, `"prompt_tokens":105,"cached_tokens":80`},
		{"inclusive", "litellm", litellm, []string{`"id"`, `"metadata":{"usage_object":{"cache_read_input_tokens":8,"cache_creation_input_tokens":5}},"id"`}, `"prompt_tokens":20,"cached_tokens":8`},
		{"metadata as text", "litellm", litellm, []string{`"id"`, `"metadata":"{\"user_api_key_team_alias\":\"t\"}","id"`}, `"tenant":"t"`},
		{"a trace is no session", "litellm", litellm, []string{`"id"`, `"trace_id":"7d3e0c5a-5e1a-4a8e-9a63-2f7f0c1e5b11","id"`}, `"model":"m","arrived_at"`},
		{"passed through, no tokens", "litellm", litellm, []string{`"id"`, `"call_type":"pass_through_endpoint","id"`, `:20,`, `:0,`, `:10}`, `:0}`}, "ignored 1"},
		{"passed through to a model", "litellm", litellm, []string{`"id"`, `"call_type":"pass_through_endpoint","id"`}, `"prompt_tokens":20,"output_tokens":10`},
		{"retried", "litellm", litellm, []string{`"id"`, `"metadata":{"attempted_retries":2},"id"`}, `"attempt":3`},
		{"cached beyond prompt", "litellm", litellm, []string{`"id"`, `"metadata":{"usage_object":{"prompt_tokens_details":{"cached_tokens":21}}},"id"`}, "inconsistent"},
		{"ends before it starts", "litellm", litellm, []string{"1795240802", "1795240799"}, "inconsistent"},
		{"first token after the end", "litellm", litellm, []string{`"id"`, `"completionStartTime":1795240803,"stream":true,"id"`}, `"arrived_at":1795240800000,"finished_at":1795240802000`},
		{"streams one token", "litellm", litellm, []string{`"id"`, `"completionStartTime":1795240802,"stream":true,"id"`}, `"first_token_at":1795240802000`},
		{"a tenant too long", "litellm", litellm, []string{`"id"`, `"end_user":"` + strings.Repeat("x", 300) + `","id"`}, `"model":"m","arrived_at"`},
		{"an id too long", "litellm", litellm, []string{`"i"`, `"` + strings.Repeat("x", 300) + `"`}, "label_too_long"},
		{"deep body", "litellm", litellm, []string{`"id"`, `"messages":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `,"id"`}, "too_deep"},
		{"HTML", "litellm", "<html>", nil, "not_json"},
		{"empty", "litellm", " \n", nil, "empty"},
		{"no records", "litellm", "[]", nil, ""},
		{"junk after an array", "litellm", "[" + litellm + "]]", nil, "not_json"},
		{"a tool", "litellm", litellm, []string{`"id"`, `"call_type":"call_mcp_tool","id"`}, "ignored 1"},
		{"a stored batch", "litellm", litellm, []string{`"id"`, `"call_type":"aretrieve_batch","id"`}, "ignored 1"},
		{"a stored response", "litellm", litellm, []string{`"id"`, `"call_type":"aget_responses","id"`}, "ignored 1"},
		{"a message", "litellm", litellm, []string{`"id"`, `"call_type":"anthropic_messages","id"`}, `"route":"anthropic_messages"`},
		{"cost is NaN", "litellm", litellm, []string{`"id"`, `"response_cost":NaN,"note":"NaN -Infinity","id"`}, `{"id":"i"`},
		{"count is Infinity", "litellm", "[" + litellm + "," + litellm + "]", []string{`"prompt_tokens":20`, `"prompt_tokens":Infinity`}, "missing_field"},
		{"an unknown literal", "litellm", litellm, []string{`"id"`, `"note":Nil,"id"`}, "not_json"},
		{"lines of arrays", "litellm", "[" + litellm + "]\n[" + litellm + "]", nil, `"id":"i"`},

		{"from Kong's cache", "kong", kong, []string{`"meta"`, `"cache":{"cache_status":"Hit","fetch_latency":21},"meta"`}, "ignored 1"},
		{"not in Kong's cache", "kong", kong, []string{`"meta"`, `"cache":{"cache_status":"Miss"},"meta"`}, `"prompt_tokens":20,"output_tokens":10`},
		{"Kong 3.7", "kong", kong, []string{`"proxy"`, `"ai-proxy"`, `"prompt_tokens"`, `"prompt_token"`, `"completion_tokens"`, `"completion_token"`}, `"pool":"m","model":"m","arrived_at":1795240800000,"finished_at":1795240802000,"prompt_tokens":20,"output_tokens":10`},
		{"no model", "kong", kong, []string{`"m"`, `"UNSPECIFIED"`, `"request"`, `"pool":"p","request"`}, `{"id":"i","pool":"p","arrived_at"`},
		{"several lines of Kong", "kong", "[" + kong + "]", nil, `"prompt_tokens":20,"output_tokens":10`},

		{"usage as text", "openai", openai, []string{`{"prompt_tokens":20,"completion_tokens":10}`, `"{\"prompt_tokens\":20,\"completion_tokens\":10}"`}, `"prompt_tokens":20,"output_tokens":10`},
		{"inclusive by its total", "openai", openai, []string{`"prompt_tokens":20,"completion_tokens":10`, `"input_tokens":20,"output_tokens":10,"cache_read_input_tokens":8,"total_tokens":30`}, `"prompt_tokens":20,"cached_tokens":8`},
		{"inclusive by its name", "openai", openai, []string{`"prompt_tokens":20`, `"prompt_tokens":20,"cache_read_input_tokens":8`}, `"prompt_tokens":20,"cached_tokens":8`},
		{"exclusive", "openai", openai, []string{`"prompt_tokens":20,"completion_tokens":10`, `"input_tokens":20,"output_tokens":10,"cache_read_input_tokens":8,"cache_creation_input_tokens":null`}, `"prompt_tokens":28,"cached_tokens":8`},
		{"output from the total", "openai", openai, []string{`"completion_tokens":10`, `"total_tokens":25`}, `"output_tokens":5`},
		{"failed", "openai", openai, []string{`"id"`, `"status":"failed","id"`}, `"status":"error"`},
		{"a full pool", "openai", `{"request_id":"i","model":"m","status_code":429,"finished_at":1795240800}`, nil, `"finished_at":1795240800000,"phase":"rejected","status":"rejected"}`},
		{"error", "openai", `{"error":{"message":"no","type":"rate_limit_error","code":null},"model":"m","created":1795240800}`, nil, `"status":"rejected"`},
		{"text of a user", "openai", openai, []string{`"id"`, `"message":"{\"status\":\"failed\",\"service_tier\":\"gold\"}","id"`}, `"model":"m","arrived_at"`},
		{"not done yet", "openai", openai, []string{`"id"`, `"status":"in_progress","id"`}, "ignored 1"},
		{"without usage", "openai", openai, []string{`"usage"`, `"abuse"`}, "missing_field"},
		{"arrived in 1970", "openai", openai, []string{`"id"`, `"arrived_at":17952408,"id"`}, "bad_time"},
		{"server-sent events", "openai", "data: {}", nil, "not_json"},
		{"one event of a stream", "openai", openai, []string{"chat.completion", "chat.completion.chunk", `{"prompt_tokens":20,"completion_tokens":10}`, "null"}, "ignored 1"},
		{"one event without usage", "openai", openai, []string{"chat.completion", "chat.completion.chunk", `,"usage":{"prompt_tokens":20,"completion_tokens":10}`, ""}, "missing_field"},

		{"failure event", "openai", `{"type":"response.failed","response":{"id":"i","status":"failed","created_at":1795240800,"model":"m","usage":null}}`, nil, `"status":"error"`},
		{"run of the Assistants API", "openai", `{"object":"thread.run","id":"i","created_at":1795240800,"completed_at":1795240802,"model":"m","status":"completed",` +
			`"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}}`, nil, `"arrived_at":1795240800000,"finished_at":1795240802000,"prompt_tokens":20,"output_tokens":10`},
		{"legacy events", "openai", `{"id":"i","object":"text_completion","created":1795240800,"model":"m","choices":[{"text":"a"}],"usage":null}` + "\n" +
			`{"id":"i","object":"text_completion","created":1795240800,"model":"m","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":10}}`, nil, `{"id":"i","pool":"m","model":"m","arrived_at":1795240800000,"prompt_tokens":20,"output_tokens":10}` + "\n"},
		{"legacy without usage", "openai", openai, []string{"chat.completion", "text_completion", `,"usage":{"prompt_tokens":20,"completion_tokens":10}`, ""}, "missing_field"},

		{"status by text", "envoy", envoy, []string{"200}", "200}", `"response_code":200`, `"response_code":"503"`}, `"status":"rejected"`},
		{"client left, code 0", "envoy", envoy, []string{`"response_code":200`, `"response_code":0`}, `"status":"cancelled"`},
		{"upstream full", "envoy", envoy, []string{`"response_code":200`, `"response_code":503,"response_flags":"UF,UO"`}, `"status":"rejected"`},
		{"fault of the server", "envoy", envoy, []string{`"response_code":200`, `"response_code":500`}, `"status":"error"`},
		{"nested", "envoy", envoy, []string{`"gen_ai.usage.input_tokens":20,"gen_ai.usage.output_tokens":10`, `"gen_ai":{"usage":{"input_tokens":20,"output_tokens":10}}`}, `"prompt_tokens":20,"output_tokens":10`},
		{"half counted", "envoy", envoy, []string{`"gen_ai.usage.input_tokens":20`, `"genai_tokens_total":30`}, `"prompt_tokens":20,"output_tokens":10`},
		{"duration of years", "envoy", envoy, []string{`:2000`, `:1e12`}, `"arrived_at":1795240800000,"prompt_tokens":20`},
		{"list of models", "envoy", `{"method":"get","start_time":1795240800}`, nil, "ignored 1"},
		{"end after 2199", "envoy", envoy, []string{"2026-11-21T06:00:00", "2199-12-31T23:59:59"}, "bad_time"},
		{"logged at its end", "envoy", envoy, []string{"start_time", "time"}, `"arrived_at":1795240798000,"finished_at":1795240800000`},

		{"aborted by the client", "sglang", sglang, []string{`"id"`, `"finish_reason":{"type":"abort"},"id"`}, `"status":"cancelled"`},
		{"refused by the engine", "sglang", sglang, []string{`"id"`, `"finish_reason":{"type":"abort","status_code":400},"id"`}, `"phase":"finished","status":"error"`},
		{"a reason of another version", "sglang", sglang, []string{`"id"`, `"finish_reason":{"type":"repetition"},"id"`}, `"output_tokens":10}`},
		{"queue", "sglang", sglang, []string{`"id"`, `"queue_time":0.5,"id"`}, `"started_at":1795240800500`},
		{"prompt in it", "sglang", sglang, []string{`\"model\":`, `\"text\":\"\\\"prompt_tokens\\\":1\",\"model\":`}, `"model":"m","arrived_at"`},
		{"parameters cut", "sglang", sglang, []string{`\"}"`, `"`, `"id"`, `"model":"n","id"`}, `"model":"n"`},
		{"rates are NaN and Infinity", "sglang", sglang, []string{`"id"`, `"decode_throughput":-Infinity,"queue_time":NaN,"id"`}, `"arrived_at":1795240800000,"finished_at"`},
		{"negative queue time", "sglang", sglang, []string{`"id"`, `"queue_time":-0.5,"id"`}, `"arrived_at":1795240800000,"finished_at"`},
		{"of a batch", "sglang", sglang, []string{`"id":"i"`, `"id":["i","j"]`}, `{"pool":"m"`},
	} {
		record := tc.record
		for i := 0; i < len(tc.change); i += 2 {
			record = strings.Replace(record, tc.change[i], tc.change[i+1], 1)
		}
		got := read(tc.format, []byte(record), Meta{})
		if !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s, %s: %s\ngot %swant %s", tc.format, tc.name, record, got, tc.want)
		}
	}
}

// TestForeignPoolAndClass: pool and class come from the record, else from the subject, else the model is the pool.
func TestForeignPoolAndClass(t *testing.T) {
	const bare = `{"created":1795240800,"model":"m","usage":{"prompt_tokens":2}}`
	const full = `{"created":1795240800,"model":"m","pool":"p","class":"c","usage":{"prompt_tokens":2}}`
	for _, tc := range []struct {
		record      string
		meta        Meta
		pool, class string
	}{
		{full, Meta{Pool: "q", Class: "d"}, "p", "c"},
		{bare, Meta{Pool: "q", Class: "d"}, "q", "d"},
		{bare, Meta{}, "m", ""},
	} {
		tc.meta.ContentType = ContentTypeOpenAI
		b := decode(tc.meta, tc.record)
		if len(b.Requests) != 1 || b.Requests[0].Pool != tc.pool || b.Requests[0].Class != tc.class {
			t.Errorf("%s with %+v: got %+v", tc.record, tc.meta, b)
		}
	}
	for _, m := range []Meta{{Kind: KindReplica, Pool: "p"}, {Kind: KindWatermark}, {Kind: KindAck}} {
		m.ContentType = ContentTypeOpenAI
		if b := decode(m, bare); len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonUnknownFormat {
			t.Errorf("on a subject of kind %d: %+v", m.Kind, b)
		}
	}
}

// TestUsageWithoutATime: if the record has no time, the request ended when the stream stored the message.
func TestUsageWithoutATime(t *testing.T) {
	for record, want := range map[string]time.Time{
		`{"prompt_tokens":9,"completion_tokens":12}`:                           at,
		`{"created":1795240700,"usage":{"prompt_tokens":9,"output_tokens":1}}`: {},
	} {
		b := ingest.Batch{ReceivedAt: at}
		Decode(Meta{ContentType: ContentTypeOpenAI, Pool: "p"}, []byte(record), ingest.DefaultLimits(), &b)
		if len(b.Requests) != 1 || !b.Requests[0].FinishedAt.Equal(want) || b.Requests[0].EventTime().IsZero() {
			t.Errorf("%s: got %+v", record, b)
		}
	}
}

func TestForeignBatchIsBounded(t *testing.T) {
	limits := ingest.DefaultLimits()
	limits.BatchRecords = 2
	const record = `{"created":1795240800,"model":"m","usage":{"prompt_tokens":2}}`
	for _, data := range []string{
		"[" + strings.Repeat(record+",", 4) + record + "]",
		strings.Repeat(record+"\n", 5),
		"[" + record + "," + record + "]\n[" + record + ",1,2]",
	} {
		var b ingest.Batch
		Decode(Meta{ContentType: ContentTypeOpenAI}, []byte(data), limits, &b)
		if len(b.Requests) != 2 || len(b.Refused) != 1 || b.Refused[0].Detail != "3 records beyond the limit of 2" {
			t.Errorf("%s: got %d requests and %+v", data, len(b.Requests), b.Refused)
		}
	}
}

// TestSplit: of a message with several records, the complete and valid ones are decoded, and the others are refused.
func TestSplit(t *testing.T) {
	const a, b, c = `{"created":1795240801,"model":"m","usage":{"prompt_tokens":1}}`, `{"x":[{"y":"]}"}],"z":}`, `{"created":1795240803,"model":"m","usage":{"prompt_tokens":3}}`
	for data, want := range map[string]string{
		"[" + a + "," + b + "," + c + "]":                                 "1 not_json",
		a + "\n" + b + "\n" + c:                                           "1 3 not_json",
		`[2026-11-21 06:00:00.123][1][info] "x" {[` + "\n" + a + "\n" + c: "1 3 wrong_type not_json", // a line of the program's own log
		"half\n" + a + "\n\n" + c + "\r\n":                                "1 3 not_json",
		"[" + a + `,{"x":[1},` + c + "]":                                  "1 not_json", // without a bracket
		"[" + a + `,{"x":1,` + c + "]":                                    "1 not_json",
		`{"x":[1}` + "\n" + a + "\n" + `{"x":"y` + "\n" + c:               "1 3 not_json truncated",
		"\ufeff" + a + "\n" + c:                                           "1 3",
		"[\n" + a + ",\n" + c + "\n]\n":                                   "1 3",
		"[\n" + a + ",\n" + b + ",\n" + c + "\n]\n":                       "1 not_json",
		"[" + a + ",\n" + b + ",\n" + c + "]\n":                           "1 not_json",
		"[" + a + ",\n" + c + ",\n" + b + "]\n":                           "1 3 not_json",
		"[" + a + "]\n[" + b + "]\n[" + c + "]":                           "1 3 not_json",
		"{\n" + a[1:len(a)-1] + "\n}":                                     "1",
		"[" + a + "," + c:                                                 "1 3 truncated",
		"[" + a + "," + c[:20]:                                            "1 truncated",
		"[" + a + "," + c + "]" + "x":                                     "1 3 not_json",
		"{\"model\": [\"m\"]\n, \"usage\": {\n  \"a\"":                    "truncated",
		"<html>\n<body>\n":                                                "not_json",
		"{\n  \"model\": \"m\",\n  \"usage\": {\n  \"a":                   "truncated", // one record of several lines
		"[[" + a + "]]":                                                   "wrong_type",
		"[1,\"a,]\",null," + c + "]":                                      "3 wrong_type wrong_type wrong_type",
		a + c:                                                             "not_json",
	} {
		var batch ingest.Batch
		Decode(Meta{ContentType: ContentTypeOpenAI}, []byte(data), ingest.DefaultLimits(), &batch)
		var got []string
		for _, r := range batch.Requests {
			got = append(got, fmt.Sprint(r.PromptTokens))
		}
		for _, r := range batch.Refused {
			got = append(got, string(r.Reason))
		}
		if d := diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s (-want +got):\n%s", data, d)
		}
	}
}
