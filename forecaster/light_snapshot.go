package forecaster

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
)

// lightState is a light series in a snapshot. There may be tens of thousands, so that numbers are packed.
type lightState struct {
	History model.HistoryState `cbor:"1,keyasint"`
	Spread  spread             `cbor:"2,keyasint"`
	Anchor  anchor             `cbor:"3,keyasint"`
	Learned int64              `cbor:"4,keyasint"`
	Own     []byte             `cbor:"5,keyasint"` // by knot: 32-bit quantiles of scores, seen, silent and woke origins
	Rows    []byte             `cbor:"6,keyasint"`
}

// Sizes of the packed parts.
const (
	packedKnot = 2*(4*NumLevels+4) + 8 + 8
	packedRow  = 8 + 4 + 4 + 2*numKnots*NumLevels
)

func lightStates(all []*light) []*lightState {
	if all == nil {
		return nil
	}
	out := make([]*lightState, len(all))
	for d, l := range all {
		if l != nil {
			out[d] = &lightState{l.history.State(), l.spread, l.anchor, l.learned, l.packOwn(), l.packRows()}
		}
	}
	return out
}

var order = binary.LittleEndian

func (l *light) packOwn() []byte {
	b := make([]byte, 0, numKnots*packedKnot)
	for j := range knots {
		for state := range l.scores[j] {
			for _, v := range l.scores[j][state] {
				b = order.AppendUint32(b, math.Float32bits(v))
			}
			b = order.AppendUint32(b, math.Float32bits(l.seen[j][state]))
		}
		b = order.AppendUint64(b, math.Float64bits(l.silence[j].Silent))
		b = order.AppendUint64(b, math.Float64bits(l.silence[j].Woke))
	}
	return b
}

func (l *light) unpackOwn(b []byte) bool {
	if len(b) != numKnots*packedKnot {
		return false
	}
	for j := range knots {
		for state := range l.scores[j] {
			for i := range l.scores[j][state] {
				l.scores[j][state][i] = math.Float32frombits(order.Uint32(b[4*i:]))
			}
			l.seen[j][state] = math.Float32frombits(order.Uint32(b[4*NumLevels:]))
			b = b[4*NumLevels+4:]
		}
		l.silence[j].Silent, l.silence[j].Woke = math.Float64frombits(order.Uint64(b)), math.Float64frombits(order.Uint64(b[8:]))
		b = b[16:]
	}
	return true
}

func (l *light) packRows() []byte {
	b := make([]byte, 0, len(l.rows)*packedRow)
	for i := range l.rows {
		r := &l.rows[i]
		b = order.AppendUint64(b, uint64(r.Minute))
		b = order.AppendUint32(b, math.Float32bits(r.Level))
		b = order.AppendUint32(b, math.Float32bits(r.Spread))
		for j := range r.Quantile {
			for _, n := range r.Quantile[j] {
				b = order.AppendUint16(b, uint16(n))
			}
		}
	}
	return b
}

func (l *light) unpackRows(b []byte) bool {
	if len(b) != len(l.rows)*packedRow {
		return false
	}
	for i := range l.rows {
		r := &l.rows[i]
		r.Minute, r.Level, r.Spread = int64(order.Uint64(b)), math.Float32frombits(order.Uint32(b[8:])), math.Float32frombits(order.Uint32(b[12:]))
		b = b[16:]
		for j := range r.Quantile {
			for i := range r.Quantile[j] {
				r.Quantile[j][i], b = int16(order.Uint16(b)), b[2:]
			}
		}
	}
	return true
}

func (p *pool) restoreLight(key features.Key, states []*lightState, settle int) ([]*light, error) {
	if len(states) != len(dimensions) {
		return nil, fmt.Errorf("forecaster state of %s has %d dimensions, this program forecasts %d", key, len(states), len(dimensions))
	}
	out := make([]*light, len(states))
	for d, st := range states {
		if st == nil {
			continue
		}
		l := newLight(key, p.sharing(d), p.nothing(settle))
		l.learned, l.spread, l.anchor = st.Learned, st.Spread, st.Anchor
		if !l.history.Restore(st.History) || !l.unpackOwn(st.Own) || !l.unpackRows(st.Rows) || st.Learned > st.History.Newest {
			return nil, fmt.Errorf("forecaster state of %s does not have this program's shape (was features.revise changed?)", key)
		}
		out[d] = l
	}
	return out, nil
}
