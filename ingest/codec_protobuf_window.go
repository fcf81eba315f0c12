package ingest

import (
	"bytes"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// The tags of what edge aggregators publish. The figures of a window are doubles from number firstFigure on.
const (
	partAgent    = 1 << 3
	partEpoch    = 2<<3 | 1
	partSequence = 3 << 3
	partAt       = 4<<3 | 1
	partMore     = 5 << 3

	windowPool        = 1 << 3
	windowClass       = 2 << 3
	windowStart       = 3<<3 | 1
	windowReports     = 4 << 3
	windowTimed       = 5 << 3
	windowFirstSketch = 6<<3 | 2
	windowLastSketch  = windowFirstSketch + uint64(WindowSketches-1)<<3
	windowTenants     = 12<<3 | 2
	windowFeatures    = 13<<3 | 2
	windowSessions    = 14<<3 | 2
	windowFirstFigure = 16<<3 | 1
	windowLastFigure  = windowFirstFigure + uint64(WindowFigures-1)<<3

	sessionsByAge = (uint64(SessionByAge)+1)<<3 | 2

	rankingNames = 1<<3 | 2
	rankingFloor = 2<<3 | 1
	rankingTotal = 3<<3 | 1

	weightName   = 1 << 3
	weightWeight = 2<<3 | 1
	weightError  = 3<<3 | 1

	minutePool      = 1 << 3
	minuteStart     = 2<<3 | 1
	minuteLastEvent = 3<<3 | 1
	minuteAttempts  = 4<<3 | 1
	minuteTurned    = 5<<3 | 1
	minuteWaited    = 6<<3 | 1
	minuteStarted   = 7<<3 | 1
)

// The bounds of what a part carries, beside Limits.
const (
	maxPartWindows = 4096
	maxSketchBytes = 32 << 10 // more than a sketch with a count in every bin
	maxRankNames   = 8192
	maxReports     = 1<<7 - 1
)

var (
	partFields   = [...]string{1: "agent", "epoch", "sequence", "at", "more"}
	windowFields = append([]string{
		"", "pool", "class", "start", "reports", "timed", "prompt_sketch", "output_sketch", "cached_share_sketch", "ttft_sketch",
		"itl_sketch", "queue_wait_sketch", "tenants", "features", "sessions", "",
	}, figureNames[:]...)
	rankingFields = [...]string{1: "names", "floor", "total"}
	weightFields  = [...]string{1: "name", "weight", "error"}
	sessionFields = append(append([]string{""}, sessionNames[:]...), "by_age")
	minuteFields  = [...]string{1: "pool", "start", "last_event", "attempts", "turned", "waited_s", "started"}
)

func (d *decoder) protobufPart(data []byte) {
	var p Part
	var epoch uint64
	sequence := int64(0)
	w := wire{data: data}
	for w.more() {
		switch tag := w.tag(); tag {
		case partAgent:
			d.protobufLabel(w.varint(), "agent", &p.Agent)
		case partEpoch:
			epoch = w.fixed64()
		case partSequence:
			d.protobufCount(w.varint(), "sequence", counterLimit, &sequence)
		case partAt:
			d.protobufTime(w.fixed64(), "at", &p.At)
		case partMore:
			p.More = w.varint() != 0
		default:
			d.protobufOther(&w, tag, partFields[:])
		}
	}
	d.protobufEnd(&w)
	p.Epoch, p.Sequence = int64(epoch), uint64(sequence)
	switch {
	case d.meta.Kind != KindWindow:
		d.fail(ReasonUnknownSubject, "parts of edge aggregators belong on a subject of theirs (telemetry.window.<agent>)")
	case d.batch.Part != nil:
		d.fail(ReasonBatchTooLong, "a message carries one part")
	case p.Agent == "" || p.Sequence == 0 || p.At.IsZero():
		d.fail(ReasonMissingField, "a part needs agent, sequence and at")
	case p.Agent != d.meta.Source:
		d.fail(ReasonInconsistent, "the part is of agent %q, on the subject of %q", p.Agent, d.meta.Source)
	}
	if d.refusal.Reason == "" {
		d.batch.Part = &p
	}
}

// completePart refuses the windows and minutes of a message without a part: nobody could tell when they come again. A
// message with one is taken whole or, by the fold, not at all. On their subjects that holds of all records.
func (d *decoder) completePart() {
	if b := d.batch; b.Part == nil && len(b.Windows)+len(b.Minutes) > 0 {
		d.refuse(nil, ReasonMissingField, "%d windows and %d minutes without the part that numbers them", len(b.Windows), len(b.Minutes))
		b.Windows, b.Minutes = nil, nil
	}
	if b := d.batch; b.Part == nil && d.meta.Kind == KindWindow {
		for range len(b.Replicas) + len(b.Acks) {
			d.refuse(nil, ReasonMisplaced, "a report or answer on a subject of windows, without the part that numbers it")
		}
		b.Replicas, b.Acks = b.Replicas[:0], b.Acks[:0]
	}
}

func (d *decoder) protobufWindow(data []byte) {
	var x Window
	reports := int64(0)
	w := wire{data: data}
	for w.more() {
		tag := w.tag()
		switch {
		case tag == windowPool:
			d.protobufLabel(w.varint(), "pool", &x.Pool)
		case tag == windowClass:
			d.protobufLabel(w.varint(), "class", &x.Class)
		case tag == windowStart:
			d.protobufTime(w.fixed64(), "start", &x.Start)
		case tag == windowReports:
			d.protobufCount(w.varint(), "reports", maxReports, &reports)
		case tag == windowTimed:
			x.Timed = w.varint() != 0
		case tag == windowTenants:
			d.protobufRanking(w.bytes(), "tenants", &x.Tenants)
		case tag == windowFeatures:
			d.protobufRanking(w.bytes(), "features", &x.Features)
		case tag == windowSessions:
			x.Sessions = d.protobufSessions(w.bytes())
		case tag&7 == 2 && windowFirstSketch <= tag && tag <= windowLastSketch:
			sketch := w.bytes()
			if len(sketch) > maxSketchBytes {
				d.fail(ReasonTooLarge, "%s has %d bytes, the limit is %d", windowFields[tag>>3], len(sketch), maxSketchBytes)
				continue
			}
			x.Sketches[(tag-windowFirstSketch)>>3] = bytes.Clone(sketch)
		case tag&7 == 1 && windowFirstFigure <= tag && tag <= windowLastFigure:
			f := Figure((tag - windowFirstFigure) >> 3)
			d.protobufFigure(w.fixed64(), figureNames[f], d.limits.figure(f), f.Signed(), &x.Figures[f])
		default:
			d.protobufOther(&w, tag, windowFields)
		}
	}
	d.protobufEnd(&w)
	x.Reports = uint8(reports)
	d.completeWindow(&x)
	if d.refusal.Reason == "" {
		d.batch.Windows = append(d.batch.Windows, x)
	}
}

func (d *decoder) completeWindow(w *Window) {
	d.fillPool(&w.Pool)
	switch f := &w.Figures; {
	case w.Start.IsZero():
		d.fail(ReasonMissingField, "start is missing")
	case f[FigureCachedTokens] > f[FigurePromptOfCachedKnown]:
		d.fail(ReasonInconsistent, "cached_tokens is %g, more than the %g of prompt_of_cached_known that it is part of", f[FigureCachedTokens], f[FigurePromptOfCachedKnown])
	case len(d.batch.Windows) == maxPartWindows:
		d.fail(ReasonBatchTooLong, "more than %d windows", maxPartWindows)
	}
}

// figure is the largest magnitude of a figure: of a count, of an area in token-seconds, or of a sum of products.
func (l *Limits) figure(f Figure) float64 {
	most := float64(l.SumTokens)
	switch {
	case f == FigureMomentPromptOutput || f == FigureMomentOutputSq:
		return most * float64(l.Tokens)
	case f >= FigureKVTokenSeconds && f <= FigureKVModelled, f == FigureKVRetried, f == FigureKVUnserved, f == FigureKVDelayed, f == FigureLateKVTokenSeconds:
		return most * 3600
	}
	return most
}

// protobufFigure reads a number that is known: finite, within the limit, and not negative unless it may be.
func (d *decoder) protobufFigure(bits uint64, field string, limit float64, signed bool, to *float64) {
	switch f := math.Float64frombits(bits); {
	case math.IsNaN(f):
		d.fail(ReasonOutOfRange, "%s is not a number", field)
	case f < 0 && !signed:
		d.fail(ReasonNegativeCount, "%s is %g, a count cannot be negative", field, f)
	case math.Abs(f) > limit:
		d.fail(ReasonHugeCount, "%s is %g, the limit is %.0f", field, f, limit)
	default:
		*to = f
	}
}

func (d *decoder) protobufRanking(data []byte, field string, to *Ranking) {
	limit := float64(d.limits.SumTokens)
	w := wire{data: data}
	for w.more() {
		switch tag := w.tag(); tag {
		case rankingNames:
			if len(to.Names) == maxRankNames {
				d.fail(ReasonBatchTooLong, "%s has more than %d names", field, maxRankNames)
				return
			}
			to.Names = append(to.Names, d.protobufWeight(w.bytes(), limit))
		case rankingFloor:
			d.protobufFigure(w.fixed64(), "floor", limit, false, &to.Floor)
		case rankingTotal:
			d.protobufFigure(w.fixed64(), "total", limit, false, &to.Total)
		default:
			d.protobufOther(&w, tag, rankingFields[:])
		}
	}
	d.protobufEnd(&w)
	d.checkRanking(field, to)
}

func (d *decoder) checkRanking(field string, r *Ranking) {
	slices.SortFunc(r.Names, func(a, b Weight) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	for i, x := range r.Names {
		switch {
		case x.Name == "":
			d.fail(ReasonMissingField, "%s has a weight without a name", field)
		case i > 0 && x.Name == r.Names[i-1].Name:
			d.fail(ReasonInconsistent, "%s has the name %q twice", field, x.Name)
		case x.Error > x.Weight:
			d.fail(ReasonInconsistent, "%s: the error of %q is %g, more than its weight %g", field, x.Name, x.Error, x.Weight)
		}
	}
}

func (d *decoder) protobufWeight(data []byte, limit float64) (x Weight) {
	w := wire{data: data}
	for w.more() {
		switch tag := w.tag(); tag {
		case weightName:
			d.protobufLabel(w.varint(), "name", &x.Name)
		case weightWeight:
			d.protobufFigure(w.fixed64(), "weight", limit, false, &x.Weight)
		case weightError:
			d.protobufFigure(w.fixed64(), "error", limit, false, &x.Error)
		default:
			d.protobufOther(&w, tag, weightFields[:])
		}
	}
	d.protobufEnd(&w)
	return x
}

func (d *decoder) protobufSessions(data []byte) *[SessionFigures]int64 {
	var s [SessionFigures]int64
	w := wire{data: data}
	for w.more() {
		tag := w.tag()
		number := int(tag >> 3)
		switch {
		case tag == sessionsByAge:
			d.protobufSessionAges(w.bytes(), &s)
		case tag&7 != 0 || number < 1 || number > int(SessionByAge):
			d.protobufOther(&w, tag, sessionFields)
		default:
			d.protobufSessionFigure(SessionFigure(number-1), w.varint(), &s)
		}
	}
	d.protobufEnd(&w)
	return &s
}

func (d *decoder) protobufSessionFigure(f SessionFigure, x uint64, s *[SessionFigures]int64) {
	n, limit, name := protowire.DecodeZigZag(x), int64(counterLimit), sessionFields[min(f, SessionByAge)+1]
	if f == SessionWaited {
		limit = math.MaxInt64 >> 8 // nanoseconds: 417 days, over all sessions; and there is room to add
	}
	switch {
	case n < 0 && f != SessionGrowth:
		d.fail(ReasonNegativeCount, "%s is %d, a count cannot be negative", name, n)
	case n > limit || n < -limit:
		d.fail(ReasonHugeCount, "%s is %d, the limit is %d", name, n, limit)
	default:
		s[f] = n
	}
}

// protobufSessionAges reads the packed list of figures by age: all of them.
func (d *decoder) protobufSessionAges(data []byte, s *[SessionFigures]int64) {
	w := wire{data: data}
	f := SessionByAge
	for ; w.more() && int(f) < SessionFigures; f++ {
		d.protobufSessionFigure(f, w.varint(), s)
	}
	if int(f) < SessionFigures || w.more() {
		d.fail(ReasonInconsistent, "by_age has another number of figures than %d", SessionFigures-int(SessionByAge))
		return
	}
	d.protobufEnd(&w)
}

func (d *decoder) protobufMinute(data []byte) {
	var m Minute
	limit := float64(d.limits.SumTokens)
	w := wire{data: data}
	for w.more() {
		switch tag := w.tag(); tag {
		case minutePool:
			d.protobufLabel(w.varint(), "pool", &m.Pool)
		case minuteStart:
			d.protobufTime(w.fixed64(), "start", &m.Start)
		case minuteLastEvent:
			d.protobufTime(w.fixed64(), "last_event", &m.LastEvent)
		case minuteAttempts:
			d.protobufFigure(w.fixed64(), "attempts", limit, false, &m.Attempts)
		case minuteTurned:
			d.protobufFigure(w.fixed64(), "turned", limit, false, &m.Turned)
		case minuteWaited:
			d.protobufFigure(w.fixed64(), "waited_s", limit, false, &m.Waited)
		case minuteStarted:
			d.protobufFigure(w.fixed64(), "started", limit, false, &m.Started)
		default:
			d.protobufOther(&w, tag, minuteFields[:])
		}
	}
	d.protobufEnd(&w)
	d.fillPool(&m.Pool)
	switch {
	case m.Start.IsZero():
		d.fail(ReasonMissingField, "start is missing")
	case len(d.batch.Minutes) == maxPartWindows:
		d.fail(ReasonBatchTooLong, "more than %d minutes", maxPartWindows)
	}
	if d.refusal.Reason == "" {
		d.batch.Minutes = append(d.batch.Minutes, m)
	}
}
