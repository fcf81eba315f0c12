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
		return "request slots, because requests queue while KV memory is free"
	case BottleneckKV:
		return "KV memory, because requests queue for it"
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
	// SlowTTFT and SlowITL say that the latency is above what was usual before it rose. Such minutes teach nothing about what is usual.
	SlowTTFT, SlowITL bool
}

const (
	signalMinutes = 60   // minutes that tell what is usual
	signalAge     = 1440 // minutes for which they do: a fault that lasts longer is the new normal
)

// Signals are minutes of a pool, oldest first: the newest quarter of an hour, and before it an hour of minutes in which latencies
// were known and as usual. While a latency is slow, those are the minutes before it rose, for a day at most.
type Signals []Signal

// Add takes in the minute before t, and of those before it what was reported of their requests since: those that wait long, or
// are long, report late, and a minute's first counts have none of them when a pool is short. The slice that s had is not changed.
func (s Signals) Add(t time.Time, windows []features.Window, m *features.PoolMinute) Signals {
	unknown := math.NaN()
	s = append(slices.Clone(s), Signal{Minute: t.Unix()/60 - 1, TTFT: unknown, ITL: unknown, Waiting: m.State.WaitingPerReady, KVUse: m.State.KVUsedMax})
	for _, l := range features.Latencies(windows, m.Pool) {
		minute := l.Start.Unix() / 60
		for i := len(s) - 1; i >= 0 && s[i].Minute >= minute; i-- {
			// With many classes not all are amended at once, but when they settle: what is known by more is nearer to the whole.
			if x := &s[i]; x.Minute == minute && l.Reports >= x.Reports {
				x.Reports, x.TTFT, x.ITL = l.Reports, l.TTFT, l.ITL
			}
		}
	}
	return s.forget().judge()
}

// forget drops the minutes that tell nothing any more.
func (s Signals) forget() Signals {
	newest, usual := s[len(s)-1].Minute, 0
	kept := s[:0:0]
	for i := len(s) - 1; i >= 0; i-- {
		switch x := &s[i]; {
		case len(s)-i <= latestMinutes:
		case !x.known() || x.SlowTTFT || x.SlowITL || usual == signalMinutes || newest-x.Minute > signalAge:
			continue
		default:
			usual++
		}
		kept = append(kept, s[i])
	}
	slices.Reverse(kept)
	return kept
}

// judge marks the newest minutes as slow where latencies are above what was usual before, and no longer where they are back.
func (s Signals) judge() Signals {
	newest := &s[len(s)-1]
	if len(s) > 1 {
		newest.SlowTTFT, newest.SlowITL = s[len(s)-2].SlowTTFT, s[len(s)-2].SlowITL
	}
	recent, before := s.split()
	switch {
	case len(before) < fewestBefore:
		newest.SlowTTFT, newest.SlowITL = false, false
		return s
	case len(recent) < fewestRecent:
		return s
	}
	ttft, itl := rises(before, recent, ofTTFT, newest.SlowTTFT), rises(before, recent, ofITL, newest.SlowITL)
	for i := range s {
		if x := &s[i]; x.Minute >= recent[0].Minute && ttft && !newest.SlowTTFT {
			x.SlowTTFT = true
		}
		if x := &s[i]; x.Minute >= recent[0].Minute && itl && !newest.SlowITL {
			x.SlowITL = true
		}
	}
	newest.SlowTTFT, newest.SlowITL = ttft, itl
	return s
}

// What a change must amount to: the median of the newest five minutes of which latencies are known against the minutes before.
const (
	recentMinutes = 5
	latestMinutes = 15 // of which the newest five are taken: what is older tells nothing of now
	fewestRecent  = 3
	fewestBefore  = 10
	leastRise     = 1.25 // factor, and beyond the 90th percentile before
	keptRise      = 1.1  // factor, below which a latency is as usual again
	queues        = 1.0  // waiting requests per ready replica
	kvFull        = 0.85
)

// Diagnose tells what binds from how latencies have changed: prefill when the first token comes later and the next ones as
// before; decode when it is the other way round; when both come later and requests queue, slots. Where they queue while the
// KV memory is full, it is that memory, whether or not the next tokens come later too: how many run is bounded by it, and so may
// be what an iteration takes. It lasts until latencies are back to what they were before they rose. O(n log n).
func (s Signals) Diagnose() (Bottleneck, *Symptoms) {
	recent, before := s.split()
	if len(recent) < fewestRecent || len(before) < fewestBefore {
		return BottleneckNone, nil
	}
	now := s.now()
	x := &Symptoms{
		TTFT: recent.middle(ofTTFT), TTFTBefore: before.middle(ofTTFT), ITL: recent.middle(ofITL), ITLBefore: before.middle(ofITL),
		Waiting: now.middle(func(x *Signal) float64 { return x.Waiting }), KVUse: now.middle(func(x *Signal) float64 { return x.KVUse }),
	}
	newest := &s[len(s)-1]
	if b := binds(newest.SlowTTFT, newest.SlowITL, x.Waiting, x.KVUse); b != BottleneckNone {
		return b, x
	}
	return BottleneckNone, nil
}

// binds is what high latencies say runs short, beside requests that wait per ready replica and the KV use of the fullest.
func binds(ttft, itl bool, waiting, kvUse float64) Bottleneck {
	waits := waiting >= queues
	switch {
	case ttft && waits && kvUse >= kvFull:
		return BottleneckKV
	case ttft && itl && waits:
		return BottleneckSlots
	case ttft && itl:
		return BottleneckBoth
	case ttft:
		return BottleneckPrefill
	case itl:
		return BottleneckDecode
	}
	return BottleneckNone
}

// Symptoms are what a diagnosis rests on: medians over minutes, the newest few against the hour before. Latencies are the 90th
// percentiles of a minute, in seconds; NaN is unknown.
type Symptoms struct {
	_ struct{} `cbor:",toarray"`

	TTFT, TTFTBefore, ITL, ITLBefore float64
	Waiting                          float64 // requests per ready replica
	KVUse                            float64 // of the fullest replica, 0…1
}

// Diagnosed is what the latencies say runs short, with what they rest on, in sentences for people; "" when they do not tell.
func (d *Decision) Diagnosed() string {
	if d.Diagnosis == BottleneckNone {
		return ""
	}
	text := "High latencies point to " + d.Diagnosis.Words() + "."
	x := d.Symptoms
	if x == nil { // of a journal of older versions
		return text
	}
	text += fmt.Sprintf(" The slowest tenth of the requests gets the first token after %s or more (before: %s), and each further token after %s (before: %s).",
		latency(x.TTFT), latency(x.TTFTBefore), latency(x.ITL), latency(x.ITLBefore))
	if !math.IsNaN(x.Waiting) {
		text += fmt.Sprintf(" On average %.1f requests wait per replica.", x.Waiting)
	}
	if !math.IsNaN(x.KVUse) {
		text += fmt.Sprintf(" The fullest KV cache is %s full.", percent(x.KVUse))
	}
	return text
}

// latency is seconds in two digits, or whole minutes, for people.
func latency(s float64) string {
	switch {
	case s < .0995:
		return fmt.Sprintf("%.2g ms", 1000*s)
	case s < 9.95:
		return fmt.Sprintf("%.2g s", s)
	case s >= 295:
		return fmt.Sprintf("%.0f min", s/60)
	}
	return fmt.Sprintf("%.0f s", s)
}

// now are the newest minutes, latencies known or not.
func (s Signals) now() Signals { return s[max(0, len(s)-recentMinutes):] }

func (x *Signal) known() bool { return !math.IsNaN(x.TTFT) && !math.IsNaN(x.ITL) }

// told are the minutes of which both latencies are known: the newest few, unless they are too old, and those before that are as
// usual.
func (s Signals) split() (recent, before Signals) {
	for i := len(s) - 1; i >= 0; i-- {
		switch x := &s[i]; {
		case !x.known():
		case len(recent) < recentMinutes && len(s)-i <= latestMinutes:
			recent = append(recent, *x)
		case !x.SlowTTFT && !x.SlowITL:
			before = append(before, *x)
		}
	}
	slices.Reverse(recent)
	return recent, before
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

// rises says whether a latency is clearly above what is usual, or once it was, still above it.
func rises(before, recent Signals, of func(*Signal) float64, slow bool) bool {
	usual, now := before.values(of), middle(recent.values(of))
	if slow {
		return now >= keptRise*middle(usual)
	}
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
