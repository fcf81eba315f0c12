package codec

import (
	"math"
	"strconv"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

func decodeHistory(d *decoder, data []byte) {
	h := ingest.History{}
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
		if len(amounts) == ingest.MaxHistoryMinutes {
			d.fail(ingest.ReasonBatchTooLong, "%s has more than %d numbers", v.key, ingest.MaxHistoryMinutes)
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

func (d *decoder) completeHistory(h *ingest.History) {
	d.fillPool(&h.Pool)
	d.fillClass(&h.Class)
	switch {
	case h.Class == "":
		d.fail(ingest.ReasonMissingField, "class is missing; * is the pool's total")
	case h.Dimension == "":
		d.fail(ingest.ReasonMissingField, "dimension is missing")
	case h.Start.IsZero():
		d.fail(ingest.ReasonMissingField, "start is missing")
	case len(h.Values) == 0:
		d.fail(ingest.ReasonMissingField, "values is missing")
	}
}

// AppendHistory appends h.
func AppendHistory(dst []byte, h *ingest.History) []byte {
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
