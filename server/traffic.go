package server

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/forewarm/forewarm/features"
)

// Traffic is the shape of demand by pool, class and dimension over the last day of settled minutes; empty before.
type Traffic = []features.Traffic

// trafficFamilies are the gauges of Traffic.
var trafficFamilies = []family{
	{"forewarm_traffic_burst_seconds", "untyped", "Length of bursts in the last day, by quantile. A burst is a run of minutes above twice the mean. Quantile 1 is the longest; class * is the pool."},
	{"forewarm_traffic_bursts", "gauge", "Bursts in the last day. A burst is a run of minutes above twice the mean. Class * is the pool."},
	{"forewarm_traffic_demand", "untyped", "Demand in the minutes of the last day, by quantile, in the dimension's unit. Class * is the pool."},
	{"forewarm_traffic_peak_to_mean_ratio", "gauge", "Largest demand of one minute, or of 15 minutes in a row, over the mean of the last day. Class * is the pool."},
}

// RenderTraffic writes the gauges of traffic in the text exposition format.
func RenderTraffic(all Traffic) []byte {
	return render(trafficFamilies, func(add add) {
		for i := range all {
			t := &all[i]
			labels := []string{"pool", t.Pool, "class", t.Class, "dimension", t.Dimension}
			add("forewarm_traffic_burst_seconds", 60*float64(t.BurstMinutes["p50"]), append(labels, "quantile", "0.5")...)
			add("forewarm_traffic_burst_seconds", 60*float64(t.BurstMinutes["p90"]), append(labels, "quantile", "0.9")...)
			add("forewarm_traffic_burst_seconds", 60*float64(t.BurstMinutes["max"]), append(labels, "quantile", "1")...)
			add("forewarm_traffic_bursts", float64(t.Bursts), labels...)
			for _, level := range features.TrafficLevels {
				quantile := strconv.FormatFloat(level, 'g', -1, 64)
				add("forewarm_traffic_demand", float64(t.Quantiles[quantile]), append(labels, "quantile", quantile)...)
			}
			add("forewarm_traffic_peak_to_mean_ratio", float64(t.Peak1), append(labels, "window", "1m")...)
			add("forewarm_traffic_peak_to_mean_ratio", float64(t.Peak15), append(labels, "window", "15m")...)
		}
	})
}

type trafficJSON struct {
	Pool    string  `json:"pool"`
	Span    string  `json:"span"` // in words
	Traffic Traffic `json:"traffic"`
}

// getTraffic answers the shape of a pool's demand.
func (s *Server) getTraffic(_ *http.Request, p *PoolView) (any, error) {
	return trafficJSON{p.Pool, "the last day", s.trafficOf(p.Pool)}, nil
}

// trafficOf is the traffic of a pool's classes; of all if none is named.
func (s *Server) trafficOf(pool string, classes ...string) Traffic {
	out := Traffic{}
	for _, t := range s.Traffic() {
		if t.Pool == pool && (len(classes) == 0 || slices.Contains(classes, t.Class)) {
			out = append(out, t)
		}
	}
	return out
}
