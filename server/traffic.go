package server

import (
	"net/http"
	"strconv"

	"github.com/forewarm/forewarm/features"
)

// Traffic is the shape of demand by pool, class and dimension over the last day of settled minutes; empty before.
type Traffic = []features.Traffic

// collectTraffic adds the gauges of traffic.
func collectTraffic(all Traffic, add add) {
	for i := range all {
		t := &all[i]
		labels := []string{t.Pool, t.Class, t.Dimension}
		add("forewarm_traffic_burst_seconds", 60*float64(t.BurstMinutes["p50"]), append(labels, "0.5")...)
		add("forewarm_traffic_burst_seconds", 60*float64(t.BurstMinutes["p90"]), append(labels, "0.9")...)
		add("forewarm_traffic_burst_seconds", 60*float64(t.BurstMinutes["max"]), append(labels, "1")...)
		add("forewarm_traffic_bursts", float64(t.Bursts), labels...)
		for _, level := range features.TrafficLevels {
			quantile := strconv.FormatFloat(level, 'g', -1, 64)
			add("forewarm_traffic_demand", float64(t.Quantiles[quantile]), append(labels, quantile)...)
		}
		add("forewarm_traffic_peak_to_mean_ratio", float64(t.Peak1), append(labels, "1m")...)
		add("forewarm_traffic_peak_to_mean_ratio", float64(t.Peak15), append(labels, "15m")...)
	}
}

type trafficJSON struct {
	Pool    string  `json:"pool"`
	Span    string  `json:"span"` // in words
	Traffic Traffic `json:"traffic"`
}

// getTraffic answers the shape of a pool's demand.
func (s *Server) getTraffic(_ *http.Request, p *PoolView) (any, error) {
	return trafficJSON{p.Pool, "the last day", s.trafficOf(p.Pool, "")}, nil
}

// trafficOf is the traffic of a pool's class; of all its classes if class is "".
func (s *Server) trafficOf(pool, class string) Traffic {
	out := Traffic{}
	for _, t := range s.Traffic() {
		if t.Pool == pool && (class == "" || t.Class == class) {
			out = append(out, t)
		}
	}
	return out
}
