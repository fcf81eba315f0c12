package ingest

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

func (w *protobufWriter) part(p *Part) {
	w.label(partAgent, p.Agent)
	w.fixed64(partEpoch, uint64(p.Epoch))
	w.varint(partSequence, p.Sequence)
	w.time(partAt, p.At)
	if p.More {
		w.varint(partMore, 1)
	}
}

func (w *protobufWriter) window(x *Window) {
	w.label(windowPool, x.Pool)
	w.label(windowClass, x.Class)
	w.time(windowStart, x.Start)
	w.varint(windowReports, uint64(x.Reports))
	if x.Timed {
		w.varint(windowTimed, 1)
	}
	for i, sketch := range x.Sketches {
		if len(sketch) > 0 {
			w.nested(windowFirstSketch+uint64(i)<<3, sketch)
		}
	}
	w.ranking(windowTenants, &x.Tenants)
	w.ranking(windowFeatures, &x.Features)
	if x.Sessions != nil {
		var s []byte
		for i, n := range x.Sessions[:SessionByAge] {
			if n != 0 {
				s = protowire.AppendVarint(s, uint64(i+1)<<3)
				s = protowire.AppendVarint(s, protowire.EncodeZigZag(n))
			}
		}
		if ages := x.Sessions[SessionByAge:]; slices.ContainsFunc(ages, func(n int64) bool { return n != 0 }) {
			var packed []byte
			for _, n := range ages {
				packed = protowire.AppendVarint(packed, protowire.EncodeZigZag(n))
			}
			s = protowire.AppendBytes(protowire.AppendVarint(s, sessionsByAge), packed)
		}
		w.nested(windowSessions, s)
	}
	for i, f := range x.Figures {
		if f != 0 {
			w.number(windowFirstFigure+uint64(i)<<3, f)
		}
	}
}

// ranking writes one that is not empty.
func (w *protobufWriter) ranking(tag uint64, r *Ranking) {
	if len(r.Names) == 0 && r.Total == 0 {
		return
	}
	outer := w.record
	var all []byte
	for i := range r.Names {
		w.record = nil
		w.label(weightName, r.Names[i].Name)
		w.number(weightWeight, r.Names[i].Weight)
		if r.Names[i].Error != 0 {
			w.number(weightError, r.Names[i].Error)
		}
		all = protowire.AppendBytes(protowire.AppendVarint(all, rankingNames), w.record)
	}
	w.record = all
	w.number(rankingFloor, r.Floor)
	w.number(rankingTotal, r.Total)
	all, w.record = w.record, outer
	w.nested(tag, all)
}

func (w *protobufWriter) nested(tag uint64, data []byte) {
	w.record = protowire.AppendBytes(protowire.AppendVarint(w.record, tag), data)
}

func (w *protobufWriter) minute(m *Minute) {
	w.label(minutePool, m.Pool)
	w.time(minuteStart, m.Start)
	w.time(minuteLastEvent, m.LastEvent)
	w.number(minuteAttempts, m.Attempts)
	w.number(minuteTurned, m.Turned)
	w.number(minuteWaited, m.Waited)
	w.number(minuteStarted, m.Started)
}
