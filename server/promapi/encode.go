package promapi

import (
	"io"
	"net/http"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/jsonutil"
)

// flushBytes is how many bytes of an answer are buffered.
const flushBytes = 64 << 10

var codec = jsoniter.ConfigCompatibleWithStandardLibrary

// respond streams an answer, so that a large one needs no more memory than its samples.
func (a *API) respond(w http.ResponseWriter, query string, x *answer) {
	w.Header().Set("Content-Type", "application/json")
	warnings, infos := x.warnings.AsStrings(query, 10, 10)
	s := jsoniter.NewStream(codec, w, flushBytes)
	s.WriteRaw(`{"status":"success","data":`)
	writeData(s, x.data)
	writeTexts(s, "warnings", warnings)
	writeTexts(s, "infos", infos)
	s.WriteObjectEnd()
	if err := s.Flush(); err != nil {
		a.log.Debug("write of an answer failed", "cause", err.Error())
	}
}

func (a *API) respondFailure(w http.ResponseWriter, f *failure) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.kind.status)
	b, err := codec.Marshal(struct {
		Status    string `json:"status"`
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}{"error", f.kind.name, f.cause.Error()})
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		a.log.Debug("write of an error failed", "cause", err.Error())
	}
}

// writeTexts writes a member of an object with texts, if any.
func writeTexts(s *jsoniter.Stream, name string, texts []string) {
	if len(texts) > 0 {
		s.WriteMore()
		s.WriteObjectField(name)
		s.WriteVal(texts)
	}
}

func writeData(s *jsoniter.Stream, data any) {
	switch d := data.(type) {
	case parser.Value:
		s.WriteRaw(`{"resultType":`)
		s.WriteString(string(d.Type()))
		s.WriteRaw(`,"result":`)
		writeValue(s, d)
		s.WriteObjectEnd()
	case []labels.Labels:
		writeArray(s, len(d), func(i int) { writeLabels(s, d[i]) })
	default:
		s.WriteVal(d)
	}
}

// writeValue writes the result of a query. Samples are [seconds, "value"]: JSON has no numbers for NaN and infinities.
// No series has native histograms.
func writeValue(s *jsoniter.Stream, v parser.Value) {
	switch v := v.(type) {
	case promql.Vector:
		writeArray(s, len(v), func(i int) { writeSample(s, &v[i]) })
	case promql.Matrix:
		writeArray(s, len(v), func(i int) { writeSeries(s, &v[i]) })
	case promql.Scalar:
		writePoint(s, v.T, func() { jsonutil.MarshalFloat(v.V, s) })
	case promql.String:
		writePoint(s, v.T, func() { s.WriteString(v.V) })
	}
}

func writeSample(s *jsoniter.Stream, x *promql.Sample) {
	s.WriteRaw(`{"metric":`)
	writeLabels(s, x.Metric)
	s.WriteRaw(`,"value":`)
	writePoint(s, x.T, func() { jsonutil.MarshalFloat(x.F, s) })
	s.WriteObjectEnd()
}

func writeSeries(s *jsoniter.Stream, x *promql.Series) {
	s.WriteRaw(`{"metric":`)
	writeLabels(s, x.Metric)
	s.WriteRaw(`,"values":`)
	writeArray(s, len(x.Floats), func(i int) {
		writePoint(s, x.Floats[i].T, func() { jsonutil.MarshalFloat(x.Floats[i].F, s) })
	})
	s.WriteObjectEnd()
}

func writePoint(s *jsoniter.Stream, t int64, value func()) {
	s.WriteArrayStart()
	jsonutil.MarshalTimestamp(t, s)
	s.WriteMore()
	value()
	s.WriteArrayEnd()
}

func writeLabels(s *jsoniter.Stream, ls labels.Labels) {
	s.WriteObjectStart()
	first := true
	ls.Range(func(l labels.Label) {
		if !first {
			s.WriteMore()
		}
		first = false
		s.WriteObjectField(l.Name)
		s.WriteString(l.Value)
	})
	s.WriteObjectEnd()
}

// writeArray writes n elements, and flushes from time to time. After a write error it continues without effect, within
// the same bound of memory.
func writeArray(s *jsoniter.Stream, n int, element func(i int)) {
	s.WriteArrayStart()
	for i := range n {
		if i > 0 {
			s.WriteMore()
		}
		element(i)
		if s.Buffered() >= flushBytes && s.Flush() != nil {
			s.Reset(io.Discard)
		}
	}
	s.WriteArrayEnd()
}
