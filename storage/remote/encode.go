package remote

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/forewarm/forewarm/storage"
)

// encoder makes payloads of samples: a prometheus.WriteRequest (remote write 1.0) in protobuf, compressed by snappy.
type encoder struct {
	names   []string // of the labels that are added, in order
	values  map[string]string
	builder labels.Builder
	request prompb.WriteRequest
	raw     []byte
}

func newEncoder(add map[string]string) encoder {
	return encoder{names: slices.Sorted(maps.Keys(add)), values: add, builder: *labels.NewBuilder(labels.EmptyLabels())}
}

// encode gives a payload that is the caller's to keep.
func (e *encoder) encode(samples []storage.Sample) ([]byte, error) {
	series := slices.Grow(e.request.Timeseries[:0], len(samples))[:len(samples)]
	for i := range samples {
		s := &samples[i]
		ls := s.Labels
		if len(e.names) > 0 {
			e.builder.Reset(ls)
			for _, name := range e.names {
				if ls.Get(name) == "" {
					e.builder.Set(name, e.values[name])
				}
			}
			ls = e.builder.Labels()
		}
		series[i] = prompb.TimeSeries{
			Labels: prompb.FromLabels(ls, series[i].Labels), Samples: append(series[i].Samples[:0], prompb.Sample{Timestamp: s.T, Value: s.V}),
		}
	}
	e.request.Timeseries = series
	n := e.request.Size()
	e.raw = slices.Grow(e.raw[:0], n)[:n]
	if _, err := e.request.MarshalToSizedBuffer(e.raw); err != nil {
		return nil, err
	}
	return snappy.Encode(nil, e.raw), nil
}

// maxUnpacked bounds a payload that was queued: ten thousand samples with the longest of names.
const maxUnpacked = 64 << 20

// errUnreadable says that a queued payload is none.
var errUnreadable = errors.New("not a payload of remote write")

// request is a prometheus.WriteRequest as it goes over the wire, before compression; the client takes it for a message.
type request []byte

// unpack undoes the compression, up to maxUnpacked.
func unpack(data []byte) (request, error) {
	n, err := snappy.DecodedLen(data)
	if err != nil || n > maxUnpacked {
		return nil, fmt.Errorf("%w: %d bytes, %w", errUnreadable, n, err)
	}
	raw, err := snappy.Decode(nil, data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return raw, nil
}

// Size is what the client needs of a message.
func (r request) Size() int { return len(r) }

// MarshalToSizedBuffer is what the client needs of a message.
func (r request) MarshalToSizedBuffer(b []byte) (int, error) { return copy(b, r), nil }

// version2 is the same as an io.prometheus.write.v2.Request: names and values once each, with what the series are.
func (r request) version2() (*writev2.Request, error) {
	var one prompb.WriteRequest
	if err := one.Unmarshal(r); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	help := storage.SeriesHelp()
	symbols := writev2.NewSymbolTable()
	two := &writev2.Request{Timeseries: make([]writev2.TimeSeries, len(one.Timeseries))}
	for i := range one.Timeseries {
		from, to := &one.Timeseries[i], &two.Timeseries[i]
		to.Metadata.Type = writev2.Metadata_METRIC_TYPE_GAUGE
		for _, l := range from.Labels {
			to.LabelsRefs = append(to.LabelsRefs, symbols.Symbolize(l.Name), symbols.Symbolize(l.Value))
			if l.Name == model.MetricNameLabel {
				to.Metadata.HelpRef = symbols.Symbolize(help[l.Value])
			}
		}
		for _, s := range from.Samples {
			to.Samples = append(to.Samples, writev2.Sample{Timestamp: s.Timestamp, Value: s.Value})
		}
	}
	two.Symbols = symbols.Symbols()
	return two, nil
}
