package server

import (
	"net/http"
	"strconv"

	"github.com/forewarm/forewarm/features"
)

// TrafficSpan is the span of [Traffic] in words.
const TrafficSpan = "the last day"

// Traffic is the shape of demand by pool, class and dimension over the last day of settled minutes; empty before.
type Traffic = []features.Traffic

// trafficFamilies are the gauges of Traffic.
var trafficFamilies = []familyOf[Traffic]{
	{"forewarm_traffic_burst_seconds", "untyped", "Length of bursts in the last day, by quantile. A burst is a run of minutes above twice the mean. Quantile 1 is the longest; class * is the pool.", func(out *Traffic, add add) {
		eachTraffic(out, func(t *features.Traffic, labels []string) {
			add(60*t.BurstP50, append(labels, "quantile", "0.5")...)
			add(60*t.BurstP90, append(labels, "quantile", "0.9")...)
			add(60*t.BurstMax, append(labels, "quantile", "1")...)
		})
	}},
	{"forewarm_traffic_bursts", "gauge", "Bursts in the last day. A burst is a run of minutes above twice the mean. Class * is the pool.", func(out *Traffic, add add) {
		eachTraffic(out, func(t *features.Traffic, labels []string) { add(float64(t.Bursts), labels...) })
	}},
	{"forewarm_traffic_demand", "untyped", "Demand in the minutes of the last day, by quantile, in the dimension's unit. Class * is the pool.", func(out *Traffic, add add) {
		eachTraffic(out, func(t *features.Traffic, labels []string) {
			for i, level := range features.TrafficLevels {
				add(t.Quantiles[i], append(labels, "quantile", strconv.FormatFloat(level, 'g', -1, 64))...)
			}
		})
	}},
	{"forewarm_traffic_peak_to_mean_ratio", "gauge", "Largest demand of one minute, or of 15 minutes in a row, over the mean of the last day. Class * is the pool.", func(out *Traffic, add add) {
		eachTraffic(out, func(t *features.Traffic, labels []string) {
			add(t.Peak1, append(labels, "window", "1m")...)
			add(t.Peak15, append(labels, "window", "15m")...)
		})
	}},
}

func eachTraffic(out *Traffic, visit func(t *features.Traffic, labels []string)) {
	for i := range *out {
		t := &(*out)[i]
		labels := []string{"pool", t.Pool, "class", t.Class, "dimension", t.Dimension}
		visit(t, labels[:len(labels):len(labels)])
	}
}

// RenderTraffic writes the gauges of traffic in the text exposition format.
func RenderTraffic(t Traffic) []byte { return render(&t, trafficFamilies) }

type trafficJSON struct {
	Pool    string  `json:"pool"`
	Span    string  `json:"span"`
	Traffic Traffic `json:"traffic"`
}

// getTraffic answers the shape of a pool's demand.
func (s *Server) getTraffic(_ *http.Request, p *PoolView) (any, error) {
	return trafficJSON{p.Pool, TrafficSpan, s.trafficOf(p.Pool)}, nil
}

func (s *Server) trafficOf(pool string) Traffic {
	out := Traffic{}
	for _, t := range s.Traffic() {
		if t.Pool == pool {
			out = append(out, t)
		}
	}
	return out
}
