package ingest

import (
	"math"
	"strconv"
	"time"

	"github.com/buger/jsonparser"
)

// MaxHistoryMinutes bounds the values of one [History]: a day.
const MaxHistoryMinutes = 24 * 60

// History is what demand was before telemetry began, as another system recorded it: it teaches the models of one class,
// or of a pool's total (class "*"), in one dimension. It is an event of the log like any other, so that a replay learns
// the same.
type History struct {
	Pool, Class, Dimension string
	Start                  time.Time // of the first minute
	// Values are averages over consecutive minutes, in the dimension's unit; NaN where nothing is known.
	Values []float64
}

func decodeHistory(d *decoder, data []byte) {
	h := History{}
	ok := d.object(data, func(v value) {
		switch string(v.key) {
		case "pool":
			d.label(v, &h.Pool)
		case "class":
			d.label(v, &h.Class)
		case "dimension":
			d.label(v, &h.Dimension)
		case "start":
			d.time(v, &h.Start)
		case "values":
			h.Values = d.amounts(v)
		}
	})
	if !ok {
		return
	}
	if d.completeHistory(&h); d.refusal.Reason == "" {
		d.batch.Histories = append(d.batch.Histories, h)
	}
}

// amounts reads an array of numbers that are not negative; null is not known.
func (d *decoder) amounts(v value) (amounts []float64) {
	if v.typ != jsonparser.Array {
		d.wrongType(v, "an array of numbers")
		return nil
	}
	limit := float64(d.limits.SumTokens)
	_, err := jsonparser.ArrayEach(v.raw, func(raw []byte, typ jsonparser.ValueType, _ int, _ error) {
		if len(amounts) == MaxHistoryMinutes {
			d.fail(ReasonBatchTooLong, "%s has more than %d numbers", v.key, MaxHistoryMinutes)
			return
		}
		x := math.NaN()
		if typ != jsonparser.Null {
			d.number(value{key: v.key, raw: raw, typ: typ}, limit, &x)
		}
		amounts = append(amounts, x)
	})
	if err != nil {
		d.wrongType(v, "an array of numbers")
	}
	return amounts
}

func (d *decoder) completeHistory(h *History) {
	d.fillPool(&h.Pool)
	d.fillClass(&h.Class)
	switch {
	case h.Class == "":
		d.fail(ReasonMissingField, "class is missing; * is the pool's total")
	case h.Dimension == "":
		d.fail(ReasonMissingField, "dimension is missing")
	case h.Start.IsZero():
		d.fail(ReasonMissingField, "start is missing")
	case len(h.Values) == 0:
		d.fail(ReasonMissingField, "values is missing")
	}
}

// AppendHistory appends h.
func AppendHistory(dst []byte, h *History) []byte {
	w := object(dst)
	w.text("pool", h.Pool)
	w.text("class", h.Class)
	w.text("dimension", h.Dimension)
	w.time("start", h.Start)
	w.key("values")
	w.buf = append(w.buf, '[')
	for i, v := range h.Values {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		if math.IsNaN(v) {
			w.buf = append(w.buf, "null"...)
		} else {
			w.buf = strconv.AppendFloat(w.buf, v, 'f', -1, 64)
		}
	}
	w.buf = append(w.buf, ']')
	return w.end()
}
