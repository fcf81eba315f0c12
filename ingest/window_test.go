package ingest

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/forewarm/forewarm/ingest/telemetrypb"
)

var windowMeta = Meta{Kind: KindWindow, ContentType: ContentTypeProtobuf, Source: "edge"}

// fullPart has every field of a part set, each figure to another value.
func fullPart() (in *telemetrypb.Batch, want Batch) {
	ns := at.UnixNano()
	w := &telemetrypb.Window{
		Pool: 2, Class: 3, Start: ns, Reports: 5, Timed: true, PromptSketch: []byte{1}, OutputSketch: []byte{2}, CachedShareSketch: []byte{3},
		TtftSketch: []byte{4}, ItlSketch: []byte{5}, QueueWaitSketch: []byte{6},
		Tenants:  &telemetrypb.Ranking{Names: []*telemetrypb.Weight{{Name: 4, Weight: 9, Error: 2}}, Floor: 1, Total: 20},
		Features: &telemetrypb.Ranking{Total: 3},
		Sessions: &telemetrypb.Sessions{},
	}
	x := Window{
		Pool: "p", Class: "c", Start: at, Reports: 5, Timed: true, Sketches: [WindowSketches][]byte{{1}, {2}, {3}, {4}, {5}, {6}},
		Tenants: Ranking{Names: []Weight{{"t", 9, 2}}, Floor: 1, Total: 20}, Features: Ranking{Total: 3}, Sessions: new([SessionFigures]int64),
	}
	for i, name := range figureNames {
		x.Figures[i] = float64(100 + i)
		w.ProtoReflect().Set(w.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOfFloat64(x.Figures[i]))
	}
	x.Figures[FigureKVDelayed], w.KvDelayed = -7, -7
	for i, name := range sessionNames {
		x.Sessions[i] = int64(200 + i)
		w.Sessions.ProtoReflect().Set(w.Sessions.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOfInt64(x.Sessions[i]))
	}
	x.Sessions[SessionGrowth], w.Sessions.Growth = -7, -7
	for f := int(SessionByAge); f < SessionFigures; f++ {
		x.Sessions[f] = int64(300 + f)
		w.Sessions.ByAge = append(w.Sessions.ByAge, x.Sessions[f])
	}
	return &telemetrypb.Batch{
			Strings: []string{"", "edge", "p", "c", "t"}, Windows: []*telemetrypb.Window{w},
			Minutes: []*telemetrypb.Minute{{Pool: 2, Start: ns, LastEvent: ns + 1, Attempts: 4, Turned: 1, WaitedS: 0.5, Started: 3}},
			Part:    &telemetrypb.Part{Agent: 1, Epoch: 77, Sequence: 3, At: ns},
		}, Batch{
			Source: "edge", Part: &Part{Agent: "edge", Epoch: 77, Sequence: 3, At: at}, Windows: []Window{x},
			Minutes: []Minute{{Pool: "p", Start: at, LastEvent: at.Add(1), Attempts: 4, Turned: 1, Waited: 0.5, Started: 3}},
		}
}

func TestDecodeWindow(t *testing.T) {
	in, want := fullPart()
	if d := diff(&want, decode(windowMeta, marshal(t, in))); d != "" {
		t.Error(d)
	}
	if d := diff(&want, decode(windowMeta, string(AppendProtobuf(nil, &want)))); d != "" {
		t.Errorf("what was written is not read back: %s", d)
	}
	meta, ok := ParseSubject("f", WindowSubject("f", "eu.1"))
	if !ok || meta.Kind != KindWindow || meta.Source != "eu.1" || meta.ContentType != ContentTypeProtobuf {
		t.Errorf("the subject says %+v", meta)
	}
}

func TestDecodeWindowRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(b *telemetrypb.Batch)
		meta   Meta
		want   Reason
		says   string
	}{
		"no number":       {func(b *telemetrypb.Batch) { b.Windows[0].Records = math.NaN() }, windowMeta, ReasonOutOfRange, "records"},
		"infinite":        {func(b *telemetrypb.Batch) { b.Windows[0].KvModelled = math.Inf(1) }, windowMeta, ReasonHugeCount, "kv_modelled"},
		"negative":        {func(b *telemetrypb.Batch) { b.Windows[0].Requests = -1 }, windowMeta, ReasonNegativeCount, "requests"},
		"huge":            {func(b *telemetrypb.Batch) { b.Windows[0].PromptTokens = 1e13 }, windowMeta, ReasonHugeCount, "prompt_tokens"},
		"huge correction": {func(b *telemetrypb.Batch) { b.Windows[0].OutputUnserved = -1e13 }, windowMeta, ReasonHugeCount, "output_unserved"},
		"contradiction":   {func(b *telemetrypb.Batch) { b.Windows[0].CachedTokens = 1e6 }, windowMeta, ReasonInconsistent, "prompt_of_cached_known"},
		"no start":        {func(b *telemetrypb.Batch) { b.Windows[0].Start = 0 }, windowMeta, ReasonMissingField, "start"},
		"no pool":         {func(b *telemetrypb.Batch) { b.Windows[0].Pool = 0 }, windowMeta, ReasonMissingField, "pool"},
		"huge sketch":     {func(b *telemetrypb.Batch) { b.Windows[0].TtftSketch = make([]byte, maxSketchBytes+1) }, windowMeta, ReasonTooLarge, "ttft_sketch"},
		"reports":         {func(b *telemetrypb.Batch) { b.Windows[0].Reports = 128 }, windowMeta, ReasonHugeCount, "reports"},
		"name twice": {func(b *telemetrypb.Batch) {
			b.Windows[0].Tenants.Names = append(b.Windows[0].Tenants.Names, b.Windows[0].Tenants.Names[0])
		}, windowMeta, ReasonInconsistent, "twice"},
		"no name":    {func(b *telemetrypb.Batch) { b.Windows[0].Tenants.Names[0].Name = 0 }, windowMeta, ReasonMissingField, "without a name"},
		"error":      {func(b *telemetrypb.Batch) { b.Windows[0].Tenants.Names[0].Error = 10 }, windowMeta, ReasonInconsistent, "error"},
		"sessions":   {func(b *telemetrypb.Batch) { b.Windows[0].Sessions.Active = -1 }, windowMeta, ReasonNegativeCount, "active"},
		"waits":      {func(b *telemetrypb.Batch) { b.Windows[0].Sessions.WaitedNs = math.MaxInt64 }, windowMeta, ReasonHugeCount, "waited_ns"},
		"ages":       {func(b *telemetrypb.Batch) { b.Windows[0].Sessions.ByAge[3] = -1 }, windowMeta, ReasonNegativeCount, "by_age"},
		"fewer ages": {func(b *telemetrypb.Batch) { b.Windows[0].Sessions.ByAge = []int64{1, 2} }, windowMeta, ReasonInconsistent, "by_age"},
		"more ages": {func(b *telemetrypb.Batch) {
			b.Windows[0].Sessions.ByAge = append(b.Windows[0].Sessions.ByAge, 1)
		}, windowMeta, ReasonInconsistent, "by_age"},
		"minute":     {func(b *telemetrypb.Batch) { b.Minutes[0].WaitedS = -1 }, windowMeta, ReasonNegativeCount, "waited_s"},
		"time":       {func(b *telemetrypb.Batch) { b.Minutes[0].Start = 5 }, windowMeta, ReasonBadTime, "start"},
		"other's":    {func(b *telemetrypb.Batch) { b.Strings[1] = "rival" }, windowMeta, ReasonInconsistent, "rival"},
		"unnumbered": {func(b *telemetrypb.Batch) { b.Part = nil }, windowMeta, ReasonMissingField, "without the part"},
		"zero":       {func(b *telemetrypb.Batch) { b.Part.Sequence = 0 }, windowMeta, ReasonMissingField, "sequence"},
		"elsewhere":  {func(*telemetrypb.Batch) {}, Meta{ContentType: ContentTypeProtobuf, Source: "edge"}, ReasonUnknownSubject, "telemetry.window"},
	} {
		t.Run(name, func(t *testing.T) {
			in, _ := fullPart()
			tc.change(in)
			b := decode(tc.meta, marshal(t, in))
			if len(b.Refused) == 0 || b.Refused[0].Reason != tc.want || !strings.Contains(b.Refused[0].Detail, tc.says) {
				t.Errorf("refused %+v, want %s about %s", b.Refused, tc.want, tc.says)
			}
			if len(b.Windows)+len(b.Minutes) == 2 {
				t.Error("all was taken all the same")
			}
			if b.Part == nil && len(b.Windows)+len(b.Minutes) > 0 {
				t.Error("windows without a part were taken")
			}
		})
	}
	if b := decode(Meta{Kind: KindWindow, Source: "edge"}, `{"pool":"p"}`); len(b.Refused) != 1 || b.Refused[0].Reason != ReasonMisplaced {
		t.Errorf("JSON on a subject of windows: %+v", b)
	}
}

func TestDecodeWindowBounds(t *testing.T) {
	in, _ := fullPart()
	for range maxPartWindows {
		in.Windows = append(in.Windows, &telemetrypb.Window{Pool: 2, Start: at.UnixNano()})
	}
	if b := decode(windowMeta, marshal(t, in)); len(b.Windows) != maxPartWindows || len(b.Refused) != 1 || b.Refused[0].Reason != ReasonBatchTooLong {
		t.Errorf("%d windows, refused %v", len(b.Windows), b.Refused)
	}
	in, _ = fullPart()
	in.Windows[0].Features = &telemetrypb.Ranking{}
	for range maxRankNames + 1 {
		in.Windows[0].Features.Names = append(in.Windows[0].Features.Names, &telemetrypb.Weight{Name: 4})
	}
	if b := decode(windowMeta, marshal(t, in)); len(b.Windows) != 0 || b.Refused[0].Reason != ReasonBatchTooLong {
		t.Errorf("%d windows, refused %v", len(b.Windows), b.Refused)
	}
}

// TestWindowSubjectsCarryNothingElse: who may publish there alone cannot have requests counted, nor reports that no part numbers.
func TestWindowSubjectsCarryNothingElse(t *testing.T) {
	request := Request{ID: "1", Pool: "p", Class: "c", Attempt: 1, ArrivedAt: at, PromptTokens: 5, CachedTokens: Unknown, OutputTokens: 3, MaxOutputTokens: Unknown}
	replica := emptyReplica
	replica.Pool, replica.Name, replica.At, replica.State = "p", "r", at, ReplicaReady
	ack := Ack{Pool: "p", EventID: "p-1", Generation: 1, Stage: AckReady, At: at}
	part := &Part{Agent: "edge", Epoch: 1, Sequence: 1, At: at}
	for name, tc := range map[string]struct {
		batch     Batch
		misplaced int
		taken     int
	}{
		"requests":            {Batch{Requests: []Request{request, request}}, 2, 0},
		"requests and a part": {Batch{Requests: []Request{request}, Part: part, Replicas: []Replica{replica}}, 1, 1},
		"sums":                {Batch{Sums: []Sum{{Pool: "p", Start: at, Requests: 1, PromptTokens: 4, CachedTokens: math.NaN(), OutputTokens: math.NaN()}}}, 1, 0},
		"a watermark":         {Batch{Watermark: &Watermark{Pool: "p", At: at}, Part: part}, 1, 0},
		"bare reports":        {Batch{Replicas: []Replica{replica, replica}, Acks: []Ack{ack}}, 3, 0},
		"reports in a part":   {Batch{Replicas: []Replica{replica}, Acks: []Ack{ack}, Part: part}, 0, 2},
	} {
		b := decode(windowMeta, string(AppendProtobuf(nil, &tc.batch)))
		misplaced := 0
		for _, r := range b.Refused {
			if r.Reason == ReasonMisplaced {
				misplaced++
			}
		}
		taken := len(b.Requests) + len(b.Sums) + len(b.Replicas) + len(b.Acks)
		if misplaced != tc.misplaced || taken != tc.taken || b.Watermark != nil || len(b.Refused) != misplaced {
			t.Errorf("%s: %d misplaced and %d taken, want %d and %d; refused %v", name, misplaced, taken, tc.misplaced, tc.taken, b.Refused)
		}
	}
	for i := range formats {
		m := windowMeta
		if m.ContentType = formats[i].contentType; m.ContentType == ContentTypeProtobuf {
			continue
		}
		b := decode(m, `{"id":"1","pool":"p","arrived_at":1767225600000,"prompt_tokens":5}`)
		if len(b.Refused) != 1 || b.Refused[0].Reason != ReasonMisplaced || len(b.Requests)+len(b.Sums) > 0 {
			t.Errorf("%s: refused %v", formats[i].name, b.Refused)
		}
	}
}

// FuzzDecodeWindow checks what the aggregator relies on, and that what is accepted can be written and read again.
func FuzzDecodeWindow(f *testing.F) {
	in, _ := fullPart()
	whole, err := proto.Marshal(in)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	for _, sample := range samples(f, "protobuf") {
		f.Add(sample)
	}
	limits := DefaultLimits()
	f.Fuzz(func(t *testing.T, data []byte) {
		var b Batch
		Decode(windowMeta, data, limits, &b)
		checkBatch(t, &b)
		if b.Part == nil && len(b.Windows)+len(b.Minutes) > 0 || b.Part != nil && (b.Part.Agent != "edge" || b.Part.Sequence == 0 || b.Part.At.IsZero()) {
			t.Fatalf("part %+v with %d windows", b.Part, len(b.Windows))
		}
		for i := range b.Windows {
			w := &b.Windows[i]
			if w.Pool == "" || w.Start.IsZero() {
				t.Fatalf("window %+v", w)
			}
			for j, v := range w.Figures {
				if figure := Figure(j); !(math.Abs(v) <= limits.figure(figure)) || v < 0 && !figure.Signed() {
					t.Fatalf("%s is %g", figureNames[j], v)
				}
			}
			for _, r := range [...]Ranking{w.Tenants, w.Features} {
				for _, x := range r.Names {
					if x.Name == "" || !(x.Weight >= x.Error) || !(x.Error >= 0) {
						t.Fatalf("weight %+v", x)
					}
				}
			}
		}
		b.Refused = nil
		if b.Part != nil {
			if d := diff(&b, decode(windowMeta, string(AppendProtobuf(nil, &b)))); d != "" {
				t.Fatal(d)
			}
		}
	})
}
