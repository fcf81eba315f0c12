package scrape

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// exposition is what one target exposes, by the names of metrics. Buckets of histograms are left out.
type exposition map[string][]sample

type sample struct {
	labels labels.Labels
	value  float64
}

// maxSeries bounds the series of one answer, buckets excepted. Engines expose some hundred, Dynamo's frontend some for
// each worker.
const maxSeries = 50_000

// parse reads the Prometheus text, OpenMetrics or protobuf format, as contentType says; old exporters of text say
// nothing. After an error no sample is usable.
func parse(body []byte, contentType string) (exposition, error) {
	p, err := textparse.New(body, cmp.Or(contentType, "text/plain"), nil, textparse.ParserOptions{IgnoreNativeHistograms: true})
	if err != nil {
		return nil, fmt.Errorf("content type %.64q is no exposition of metrics; is the path right? trtllm-serve has its metrics at /prometheus/metrics",
			contentType)
	}
	found, kept := exposition{}, 0
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the answer is no exposition of metrics; is the path right? %.200w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		series, _, value := p.Series()
		if math.IsNaN(value) || bytes.Contains(series, []byte("_bucket{")) { // most series are buckets of histograms
			continue
		}
		if kept++; kept > maxSeries {
			return nil, fmt.Errorf("more than %d series", maxSeries)
		}
		var l labels.Labels
		p.Labels(&l)
		name := canonical(l.Get(model.MetricNameLabel))
		found[name] = append(found[name], sample{l, value})
	}
}

// bare are the names of vLLM's metrics that NVIDIA NIM exposes without a prefix.
var bare = []string{
	"num_requests_running", "num_requests_waiting", "gpu_cache_usage_perc", "kv_cache_usage_perc",
	"num_preemptions_total", "prompt_tokens_total",
}

// prefixes are those of the names of metrics: as some exporters write them, and as the engine's documentation does.
var prefixes = [...]struct{ written, meant string }{
	{"vllm_", "vllm:"},
	{"ray_vllm_", "vllm:"},
	{"sglang_", "sglang:"},
	{"trtllm:", "trtllm_"},
	{"llm_d_router_epp_", "llm_d_epp_"},
}

// canonical writes a name as the engine's own documentation does.
func canonical(name string) string {
	if slices.Contains(bare, name) {
		return "vllm:" + name
	}
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(name, p.written); ok {
			return p.meant + rest
		}
	}
	return name
}

// started is when the process that answered began; zero where that is not exposed, or is exposed by several.
func (e exposition) started() time.Time {
	s := e["process_start_time_seconds"]
	if len(s) != 1 || !(s[0].value > 0 && s[0].value < 1e11) {
		return time.Time{}
	}
	return time.UnixMilli(int64(s[0].value * 1e3)).UTC()
}
