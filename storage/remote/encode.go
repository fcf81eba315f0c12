package remote

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/forewarm/forewarm/storage"
)

// sample is one value of a series; t is Unix ms.
type sample struct {
	labels labels.Labels
	t      int64
	v      float64
}

// version1 is samples as remote write 1 has them.
func version1(samples []sample) *prompb.WriteRequest {
	m := &prompb.WriteRequest{Timeseries: make([]prompb.TimeSeries, len(samples))}
	for i, s := range samples {
		m.Timeseries[i] = prompb.TimeSeries{Labels: prompb.FromLabels(s.labels, nil), Samples: []prompb.Sample{{Timestamp: s.t, Value: s.v}}}
	}
	return m
}

// version2 is the same as remote write 2 has it: names and values once each, with what the series are.
func version2(samples []sample) *writev2.Request {
	help, symbols := storage.SeriesHelp(), writev2.NewSymbolTable()
	m := &writev2.Request{Timeseries: make([]writev2.TimeSeries, len(samples))}
	for i, s := range samples {
		to := &m.Timeseries[i]
		to.Metadata = writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_GAUGE, HelpRef: symbols.Symbolize(help[s.labels.Get(model.MetricNameLabel)])}
		to.LabelsRefs = symbols.SymbolizeLabels(s.labels, nil)
		to.Samples = []writev2.Sample{{Timestamp: s.t, Value: s.v}}
	}
	m.Symbols = symbols.Symbols()
	return m
}
