package scrape

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"github.com/forewarm/forewarm/ingest"
)

func replicaOf(name string, change func(*ingest.Replica)) ingest.Replica {
	r := unknown(name, ingest.ReplicaReady)
	change(&r)
	return r
}

func sampleFile(name string) []byte {
	return must(os.ReadFile(filepath.Join("testdata", name)))
}

func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty())
}

func TestEngines(t *testing.T) {
	for file, want := range map[string][]ingest.Replica{
		"vllm.txt": {replicaOf("h:1", func(r *ingest.Replica) {
			r.KVCapacityTokens, r.KVUsedRatio, r.Running, r.Waiting, r.PreemptionsTotal = 432_000, 0.4375, 12, 3, 7
			r.PrefixHitsTotal, r.PrefixQueryTotal = 300_000, 1_200_000
		})},
		"vllm_ranks.txt": {
			replicaOf("h:1/0", func(r *ingest.Replica) {
				r.KVCapacityTokens, r.Running, r.Waiting, r.PrefixHitsTotal, r.PrefixQueryTotal = 1600, 1, 0, 30, 100
			}),
			replicaOf("h:1/1", func(r *ingest.Replica) {
				r.State, r.KVCapacityTokens, r.KVUsedRatio, r.Running = ingest.ReplicaDraining, 1600, 0, 2
			}),
			replicaOf("h:1/10", func(r *ingest.Replica) { r.KVCapacityTokens, r.Running = 1600, 3 }),
		},
		"vllm_old.txt": {replicaOf("h:1", func(r *ingest.Replica) {
			r.KVCapacityTokens, r.KVUsedRatio, r.Running, r.Waiting, r.PrefixHitsTotal, r.PrefixQueryTotal = 5000, 0.25, 4, 5, 40, 100
		})},
		"vllm_ray.txt": {
			replicaOf("h:1/0-a1", func(r *ingest.Replica) { r.KVUsedRatio, r.Running, r.Waiting = 0.25, 4, 0 }),
			replicaOf("h:1/0-b2", func(r *ingest.Replica) { r.KVUsedRatio, r.Running, r.Waiting = 0.5, 5, 2 }),
		},
		"vllm_nim.txt": {replicaOf("h:1", func(r *ingest.Replica) { r.KVUsedRatio, r.Running, r.Waiting = 0.125, 7, 1 })},
		"epp.txt": {
			replicaOf("qwen-0", func(r *ingest.Replica) { r.KVUsedRatio, r.Waiting = 0.5, 3 }),
			replicaOf("qwen-1", func(r *ingest.Replica) { r.KVUsedRatio, r.Waiting = 0.5, 0 }),
		},
		"inferencepool.txt": {replicaOf("qwen-0", func(r *ingest.Replica) { r.KVUsedRatio, r.Waiting = 0.75, 4 })},
		"sglang.txt": {replicaOf("h:1", func(r *ingest.Replica) {
			r.KVCapacityTokens, r.KVUsedTokens, r.KVUsedRatio, r.Running, r.Waiting, r.PreemptionsTotal = 262_144, 239_901, 0.915, 5, 8, 6
			r.PrefixHitsTotal, r.PrefixQueryTotal, r.StartupSeconds = 250, 1000, 95.5
		})},
		"sglang_decode.txt": {replicaOf("h:1", func(r *ingest.Replica) { r.KVUsedRatio, r.Running, r.Waiting = 0.97, 40, 13 })},
		"sglang_ranks.txt": {
			replicaOf("h:1/0", func(r *ingest.Replica) { r.KVCapacityTokens, r.Running = 64_000, 1 }),
			replicaOf("h:1/1", func(r *ingest.Replica) { r.KVCapacityTokens, r.Running = 64_000, 2 }),
		},
		"trtllm.txt": {replicaOf("h:1", func(r *ingest.Replica) {
			r.KVCapacityTokens, r.KVUsedTokens, r.KVUsedRatio, r.Running, r.Waiting = 128_000, 64_000, 0.5, 6, 2
			r.PrefixHitsTotal, r.PrefixQueryTotal = 1600, 6400
		})},
		"triton.txt": {replicaOf("h:1", func(r *ingest.Replica) {
			r.KVCapacityTokens, r.KVUsedTokens, r.KVUsedRatio, r.Running, r.Waiting = 399_360, 99_840, 0.25, 9, 3
		})},
		"dynamo.txt": {
			replicaOf("7587888937405124-0", func(r *ingest.Replica) { r.KVCapacityTokens, r.KVUsedTokens, r.Waiting = 320_000, 80_000, 3 }),
			replicaOf("7587888937405125-0", func(r *ingest.Replica) { r.KVCapacityTokens, r.KVUsedTokens = 320_000, 0 }),
		},
	} {
		t.Run(file, func(t *testing.T) {
			e := must(parse(sampleFile(file), "text/plain; version=0.0.4; charset=utf-8"))
			engine, _, _ := strings.Cut(strings.TrimSuffix(file, ".txt"), "_")
			for _, wanted := range []string{Auto, engine} {
				got, _, err := e.replicas("h:1", wanted)
				if d := diff(want, got); d != "" || err != nil {
					t.Errorf("as %s: %v\n%s", wanted, err, d)
				}
			}
			for _, other := range Engines()[1:] {
				if other == engine {
					continue
				}
				if got, _, err := e.replicas("h:1", other); err == nil || !strings.Contains(err.Error(), "no metrics of "+other) {
					t.Errorf("as %s: %v, %v", other, got, err)
				}
			}
		})
	}
}

// TestEndpointPickerOldNames: until June 2026 metrics of llm-d had another prefix.
func TestEndpointPickerOldNames(t *testing.T) {
	e, err := parse([]byte(`llm_d_router_epp_average_kv_cache_utilization{name="p"} 0.5
llm_d_router_epp_per_endpoint_queue_size{model_server_endpoint="p-0",name="p"} 3
`), "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	if e["llm_d_epp_average_kv_cache_utilization"] == nil || e["llm_d_epp_per_endpoint_queue_size"] == nil {
		t.Errorf("read as %v", e)
	}
}

// TestDynamoWithoutBlocks: a frontend without the KV router has only the queues of its workers.
func TestDynamoWithoutBlocks(t *testing.T) {
	e := must(parse([]byte(`dynamo_frontend_worker_waiting_requests{dp_rank="0",worker_id="7",worker_type="decode"} 4`+"\n"), "text/plain"))
	got, g, err := e.replicas("h:1", Auto)
	if d := diff([]ingest.Replica{replicaOf("7-0", func(r *ingest.Replica) { r.Waiting = 4 })}, got); d != "" || err != nil || !g.workers {
		t.Errorf("%v %s", err, d)
	}
}

func TestProcessStart(t *testing.T) {
	e, err := parse(sampleFile("vllm.txt"), "text/plain")
	if want := time.UnixMilli(1795240440120).UTC(); err != nil || !e.started().Equal(want) {
		t.Errorf("started %v, want %v (%v)", e.started(), want, err)
	}
	for _, text := range []string{"process_start_time_seconds 0\n", "process_start_time_seconds NaN\n", "process_start_time_seconds +Inf\n", "",
		"process_start_time_seconds{pid=\"1\"} 5\nprocess_start_time_seconds{pid=\"2\"} 6\n"} {
		if e, err := parse([]byte(text), ""); err != nil || !e.started().IsZero() {
			t.Errorf("%q: started %v, want unknown (%v)", text, e.started(), err)
		}
	}
}

// TestSeveralEnginesInOneAnswer: the first engine counts, unless the job names another. Workers of a frontend count
// only if there is no engine.
func TestSeveralEnginesInOneAnswer(t *testing.T) {
	text := "vllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 1\nsglang:num_running_reqs 1\n" + string(sampleFile("dynamo.txt"))
	e := must(parse([]byte(text), ""))
	for wanted, want := range map[string][]string{Auto: {"h:1/0", "h:1/1"}, "sglang": {"h:1"}} {
		got, _, err := e.replicas("h:1", wanted)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range got {
			names = append(names, r.Name)
		}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("%s: %s", wanted, d)
		}
	}
}

func TestImpossibleValuesAreUnknown(t *testing.T) {
	const text = `
vllm:num_requests_running -1
vllm:num_requests_waiting +Inf
vllm:kv_cache_usage_perc NaN
vllm:gpu_cache_usage_perc 0.5
vllm:num_preemptions_total 1e300
vllm:prompt_tokens_total 5
vllm:prompt_tokens_cached_total 6
vllm:cache_config_info{block_size="16",num_gpu_blocks="99999999999"} 1
`
	e := must(parse([]byte(text), ""))
	got, _, err := e.replicas("h:1", Auto)
	want := []ingest.Replica{replicaOf("h:1", func(r *ingest.Replica) { r.KVUsedRatio = 0.5 })} // from the old name, because the new one is NaN
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

// TestTensorRTPrefix: prefix hits come from counters of requests. If these are missing or zero, they come from counters
// of cache blocks.
func TestTensorRTPrefix(t *testing.T) {
	const blocks = "trtllm_num_requests_running 1\ntrtllm_kv_cache_tokens_per_block 32\ntrtllm_kv_cache_reused_blocks_total 9\ntrtllm_kv_cache_missed_blocks_total 1\n"
	for _, tc := range []struct {
		name, more    string
		hits, queries int64
	}{
		{"blocks alone", "", 288, 320},
		{"requests", "trtllm_prompt_tokens_total 640\ntrtllm_prompt_cached_tokens_total 128\n", 128, 640},
		{"requests are zero", "trtllm_prompt_tokens_total 0\ntrtllm_prompt_cached_tokens_total 0\n", 288, 320},
	} {
		e := must(parse([]byte(blocks+tc.more), "text/plain"))
		got, _, err := e.replicas("h:1", Auto)
		if err != nil || len(got) != 1 || got[0].PrefixHitsTotal != tc.hits || got[0].PrefixQueryTotal != tc.queries {
			t.Errorf("%s: %+v (%v), want %d of %d", tc.name, got, err, tc.hits, tc.queries)
		}
	}
}

func TestFormats(t *testing.T) {
	families := []*dto.MetricFamily{
		{Name: proto.String("sglang:num_running_reqs"), Type: dto.MetricType_GAUGE.Enum(), Metric: []*dto.Metric{{
			Label: []*dto.LabelPair{{Name: proto.String("model_name"), Value: proto.String("qwen")}}, Gauge: &dto.Gauge{Value: proto.Float64(5)},
		}}},
		{Name: proto.String("sglang:cached_tokens"), Type: dto.MetricType_COUNTER.Enum(), Metric: []*dto.Metric{{Counter: &dto.Counter{Value: proto.Float64(7)}}}},
		{Name: proto.String("sglang:queue_time_seconds"), Type: dto.MetricType_HISTOGRAM.Enum(), Metric: []*dto.Metric{{Histogram: &dto.Histogram{
			SampleCount: proto.Uint64(3), SampleSum: proto.Float64(2), Bucket: []*dto.Bucket{{CumulativeCount: proto.Uint64(3), UpperBound: proto.Float64(1)}},
		}}}},
	}
	for _, format := range []expfmt.Format{
		expfmt.NewFormat(expfmt.TypeTextPlain), expfmt.NewFormat(expfmt.TypeOpenMetrics), expfmt.NewFormat(expfmt.TypeProtoDelim),
	} {
		var body bytes.Buffer
		w := expfmt.NewEncoder(&body, format)
		for _, f := range families {
			if err := w.Encode(f); err != nil {
				t.Fatal(err)
			}
		}
		if closer, ok := w.(expfmt.Closer); ok {
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
		}
		e, err := parse(body.Bytes(), string(format))
		if err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		got, _, err := e.replicas("h:1", Auto)
		if err != nil || len(got) != 1 || got[0].Running != 5 {
			t.Errorf("%s: %v, %v", format, got, err)
		}
	}
}

// TestNoMoreThanFull: a router that reserves more than a worker has is read as a full worker, because the stream refuses
// a report that contradicts itself.
func TestNoMoreThanFull(t *testing.T) {
	e, err := parse([]byte(`dynamo_frontend_model_kv_cache_block_size 16
dynamo_frontend_model_total_kv_blocks 100
dynamo_frontend_worker_active_decode_blocks{worker_id="w"} 103
`), "")
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := e.replicas("h:1", Auto)
	if err != nil || len(got) != 1 || got[0].KVUsedTokens != 1600 || got[0].KVCapacityTokens != 1600 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	many := strings.Repeat("vllm:num_requests_running 1\n", maxSeries+1)
	for name, tc := range map[string]struct {
		contentType, body string
		want              string // in the error
	}{
		"HTML":                    {"text/html; charset=utf-8", "<html></html>", "text/html"},
		"HTML as text":            {"text/plain", "<html><body>Sign in</body></html>", "is the path right?"},
		"JSON of trtllm-serve":    {"application/json", "[]", "/prometheus/metrics"},
		"content type without /":  {"text", "x 1\n", "no exposition"},
		"not a number":            {"text/plain", "vllm:num_requests_running many\n", ""},
		"incomplete":              {"text/plain", "vllm:num_requests_running{engine=\"", ""},
		"OpenMetrics without end": {"application/openmetrics-text; version=1.0.0", "vllm:num_requests_running 1\n", ""},
		"invalid protobuf":        {"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited", "vllm:num", ""},
		"too many series":         {"text/plain", many, fmt.Sprint(maxSeries)},
	} {
		_, err := parse([]byte(tc.body), tc.contentType)
		if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 300 {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	e, err := parse([]byte("go_goroutines 5\nvllm:time_to_first_token_seconds_bucket{le=\"1\"} 5\n"), "")
	if err != nil || len(e) != 1 {
		t.Errorf("kept %v (%v)", e, err)
	}
	if _, _, err := e.replicas("h:1", Auto); err == nil || !strings.Contains(err.Error(), "is the path right") {
		t.Errorf("no engine: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no samples", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(0), data)
		f.Add(uint8(1), append(data, "# EOF\n"...))
	}
	f.Add(uint8(0), []byte("dynamo_frontend_worker_active_decode_blocks 1\n")) // without the name of a worker
	f.Add(uint8(2), []byte("\x0a\x08\x0a\x06vllm:x"))
	types := []string{"text/plain", "application/openmetrics-text", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"}
	f.Fuzz(func(t *testing.T, format uint8, data []byte) {
		e, err := parse(data, types[int(format)%len(types)])
		if err != nil {
			return
		}
		all, _, err := e.replicas("h:1", Auto)
		if err != nil {
			return
		}
		for _, r := range all {
			if r.Name == "" || r.KVUsedRatio < 0 || r.KVUsedRatio > 1 || r.StartupSeconds <= 0 || math.IsInf(r.StartupSeconds, 0) {
				t.Fatalf("%+v", r)
			}
			for _, n := range []int64{r.KVCapacityTokens, r.KVUsedTokens, r.Running, r.Waiting, r.PreemptionsTotal, r.PrefixHitsTotal, r.PrefixQueryTotal} {
				if n < ingest.Unknown || n > 1<<53 {
					t.Fatalf("%+v", r)
				}
			}
			if r.PrefixHitsTotal > r.PrefixQueryTotal {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	// A server with much traffic: forty histograms of thirty buckets, and the metrics that are used.
	var text bytes.Buffer
	for i := range 40 {
		for j := range 30 {
			fmt.Fprintf(&text, "vllm:request_%d_seconds_bucket{engine=\"0\",le=\"%d.0\",model_name=\"meta-llama/Llama-3.1-70B-Instruct\"} %d.0\n", i, j, 10*j)
		}
	}
	text.Write(sampleFile("vllm.txt"))
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(text.Bytes(), "text/plain"); err != nil {
			b.Fatal(err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
