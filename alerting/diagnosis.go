package alerting

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Bottleneck is what the latencies of a pool say runs short.
type Bottleneck string

// The bottlenecks. None is also the answer where there is too little to tell from.
const (
	BottleneckNone    Bottleneck = ""
	BottleneckPrefill Bottleneck = "prefill" // the first token takes longer, the next ones do not
	BottleneckDecode  Bottleneck = "decode"  // the next tokens take longer, the first one does not
	BottleneckSlots   Bottleneck = "slots"   // both do, and requests queue beside free KV memory
	BottleneckKV      Bottleneck = "kv"      // the first token takes longer, and requests queue for KV memory
	BottleneckBoth    Bottleneck = "prefill_and_decode"
)

// Words names b for people.
func (b Bottleneck) Words() string {
	switch b {
	case BottleneckPrefill:
		return "prefill throughput"
	case BottleneckDecode:
		return "decode throughput"
	case BottleneckSlots:
		return "slots: requests queue beside free KV memory"
	case BottleneckKV:
		return "KV memory: requests queue for it"
	case BottleneckBoth:
		return "prefill and decode throughput"
	}
	return ""
}

// Signal is what one minute shows of a pool's service. NaN is unknown.
type Signal struct {
	_ struct{} `cbor:",toarray"`

	Minute    int64   // since 1970
	Reports   float64 // by which the latencies are known
	TTFT, ITL float64 // 90th percentiles of time to first token and time per output token of its requests, seconds
	Waiting   float64 // requests per ready replica at its end
	KVUse     float64 // of the fullest replica then, 0…1
}

// signalMinutes is how many minutes are told from: the last few against those before.
const signalMinutes = 60

// Signals are the newest minutes of a pool, oldest first, at most an hour.
type Signals []Signal

// Add takes in the minute before t, and of those before it what was reported of their requests since: those that wait long, or
// are long, report late, and a minute's first counts have none of them when a pool is short. The slice that s had is not changed.
func (s Signals) Add(t time.Time, windows []features.Window, m *features.PoolMinute) Signals {
	unknown := math.NaN()
	s = append(slices.Clone(s), Signal{Minute: t.Unix()/60 - 1, TTFT: unknown, ITL: unknown, Waiting: m.State.WaitingPerReady, KVUse: m.State.KVUsedMax})
	s = s[max(0, len(s)-signalMinutes):]
	for _, l := range features.Latencies(windows, m.Pool) {
		minute := l.Start.Unix() / 60
		for i := len(s) - 1; i >= 0 && s[i].Minute >= minute; i-- {
			// With many classes not all are amended at once, but when they settle: what is known by more is nearer to the whole.
			if x := &s[i]; x.Minute == minute && l.Reports >= x.Reports {
				x.Reports, x.TTFT, x.ITL = l.Reports, l.TTFT, l.ITL
			}
		}
	}
	return s
}

// What a change must amount to: the median of the newest five minutes of which latencies are known against the minutes before.
const (
	recentMinutes = 5
	latestMinutes = 15 // of which the newest five are taken: what is older tells nothing of now
	fewestRecent  = 3
	fewestBefore  = 10
	leastRise     = 1.25 // factor, and beyond the 90th percentile before
	queues        = 1.0  // waiting requests per ready replica
	kvFull        = 0.85
)

// Diagnose tells what binds from how latencies have changed: prefill when the first token comes later and the next ones as
// before; decode when it is the other way round; when both come later and requests queue, slots. Where they queue while the
// KV memory is full, it is that memory, whether or not the next tokens come later too: how many run is bounded by it, and so may
// be what an iteration takes. O(n log n).
func (s Signals) Diagnose() (Bottleneck, *Symptoms) {
	recent, before := s.told()
	if len(recent) < fewestRecent || len(before) < fewestBefore {
		return BottleneckNone, nil
	}
	now := s[max(0, len(s)-recentMinutes):]
	x := &Symptoms{
		TTFT: recent.middle(ofTTFT), TTFTBefore: before.middle(ofTTFT), ITL: recent.middle(ofITL), ITLBefore: before.middle(ofITL),
		Waiting: now.middle(func(x *Signal) float64 { return x.Waiting }), KVUse: now.middle(func(x *Signal) float64 { return x.KVUse }),
	}
	ttft, itl, waits := rises(before, recent, ofTTFT), rises(before, recent, ofITL), x.Waiting >= queues
	switch {
	case ttft && waits && x.KVUse >= kvFull:
		return BottleneckKV, x
	case ttft && itl && waits:
		return BottleneckSlots, x
	case ttft && itl:
		return BottleneckBoth, x
	case ttft:
		return BottleneckPrefill, x
	case itl:
		return BottleneckDecode, x
	}
	return BottleneckNone, nil
}

// Symptoms are what a diagnosis rests on: medians over minutes, the newest few against the hour before. Latencies are the 90th
// percentiles of a minute, in seconds; NaN is unknown.
type Symptoms struct {
	_ struct{} `cbor:",toarray"`

	TTFT, TTFTBefore, ITL, ITLBefore float64
	Waiting                          float64 // requests per ready replica
	KVUse                            float64 // of the fullest replica, 0…1
}

// Diagnosed is what the latencies say runs short, with what they rest on, as a sentence for people; "" when they do not tell.
func (d *Decision) Diagnosed() string {
	if d.Diagnosis == BottleneckNone {
		return ""
	}
	text := "Latencies say that it is short of " + d.Diagnosis.Words()
	x := d.Symptoms
	if x == nil { // of a journal of older versions
		return text + "."
	}
	text += fmt.Sprintf(" (90th percentiles: first token after %s, %s before; %s a token after that, %s before", latency(x.TTFT), latency(x.TTFTBefore), latency(x.ITL), latency(x.ITLBefore))
	if !math.IsNaN(x.Waiting) {
		text += fmt.Sprintf("; %.1f requests wait per replica", x.Waiting)
	}
	if !math.IsNaN(x.KVUse) {
		text += fmt.Sprintf("; the fullest KV cache is %s full", percent(x.KVUse))
	}
	return text + ")."
}

// latency is seconds in two digits, for people.
func latency(s float64) string {
	switch {
	case s < .0995:
		return fmt.Sprintf("%.2g ms", 1000*s)
	case s < 9.95:
		return fmt.Sprintf("%.2g s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}

// told are the minutes of which both latencies are known: the newest few, unless they are too old, and those before.
func (s Signals) told() (recent, before Signals) {
	var both Signals
	old := 0 // of both
	for i := range s {
		if x := &s[i]; !math.IsNaN(x.TTFT) && !math.IsNaN(x.ITL) {
			both = append(both, *x)
			if i < len(s)-latestMinutes {
				old = len(both)
			}
		}
	}
	from := max(len(both)-recentMinutes, old)
	return both[from:], both[:from]
}

func ofTTFT(x *Signal) float64 { return x.TTFT }

func ofITL(x *Signal) float64 { return x.ITL }

// middle is the median of what is known, NaN without any.
func (s Signals) middle(of func(*Signal) float64) float64 {
	v := s.values(of)
	if len(v) == 0 {
		return math.NaN()
	}
	return middle(v)
}

// rises says whether a latency is clearly above what it was.
func rises(before, recent Signals, of func(*Signal) float64) bool {
	usual, now := before.values(of), middle(recent.values(of))
	return now >= leastRise*middle(usual) && now > usual[len(usual)*9/10]
}

// values are those that are known, ascending.
func (s Signals) values(of func(*Signal) float64) (known []float64) {
	for i := range s {
		if v := of(&s[i]); !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	slices.Sort(known)
	return known
}

// middle is the median of ascending values, 0 without any.
func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
