package server

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/forewarm/forewarm/features"
)

// TestTrafficInMetricsAndAPI: the shape of traffic is in metrics and API. Unknown values are in neither.
func TestTrafficInMetricsAndAPI(t *testing.T) {
	steps := []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 11, math.NaN()}
	shapes := Traffic{
		features.TrafficOf(features.Key{Pool: "chat", Class: features.TotalClass}, features.DimRequests, steps),
		features.TrafficOf(features.Key{Pool: "other", Class: "a"}, features.DimKV, steps),
	}
	text := string(RenderTraffic(shapes))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`forewarm_traffic_peak_to_mean_ratio{pool="chat",class="*",dimension="requests",window="1m"} 5.5`,
		`forewarm_traffic_bursts{pool="chat",class="*",dimension="requests"} 1`,
		`forewarm_traffic_burst_seconds{pool="chat",class="*",dimension="requests",quantile="1"} 60`,
		`forewarm_traffic_demand{pool="other",class="a",dimension="kv",quantile="0.5"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	if strings.Contains(text, `window="15m"`) || strings.Contains(text, "NaN") {
		t.Errorf("unknown values are shown:\n%s", text)
	}

	s := newServer(Config{}, fullReader(), fullExporter())
	s.Traffic = func() Traffic { return shapes }
	w := get(t, s, "/api/v1/pools/chat/traffic")
	var got struct {
		Traffic []struct {
			Class string   `json:"class"`
			Peak1 float64  `json:"peak_to_mean_1m"`
			Peak  *float64 `json:"peak_to_mean_15m"`
		} `json:"traffic"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Traffic) != 1 || got.Traffic[0].Peak1 != 5.5 || got.Traffic[0].Peak != nil {
		t.Errorf("%s: %+v, %v", w.Body, got, err)
	}
}
