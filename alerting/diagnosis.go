package alerting

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Bottleneck is the resource that is short, as latencies show.
type Bottleneck string

// The bottlenecks. None also means too little data.
const (
	BottleneckNone    Bottleneck = ""
	BottleneckPrefill Bottleneck = "prefill" // only the first token takes longer
	BottleneckDecode  Bottleneck = "decode"  // only the next tokens take longer
	BottleneckSlots   Bottleneck = "slots"   // both take longer, and requests queue while KV memory is free
	BottleneckKV      Bottleneck = "kv"      // the first token takes longer, and requests queue for KV memory
	BottleneckBoth    Bottleneck = "prefill_and_decode"
)

// Words is b in words.
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

// Signal is the latencies and queues of a pool in one minute. NaN is unknown.
type Signal struct {
	_ struct{} `cbor:",toarray"`

	Minute    int64   // since 1970
	Reports   float64 // number of requests behind the latencies
	TTFT, ITL float64 // 90th percentiles of time to first token and time per output token of its requests, seconds
	Waiting   float64 // requests per ready replica at the end of the minute
	KVUse     float64 // of the fullest replica at the end, 0…1
	// SlowTTFT and SlowITL say that the latency is above the usual one. Such minutes do not count as usual.
	SlowTTFT, SlowITL bool
}

const (
	signalMinutes = 60   // usual minutes kept
	signalAge     = 1440 // their largest age in minutes: a fault that lasts longer is the new normal
)

// Signals are minutes of a pool, oldest first: the newest 15, and 60 earlier ones with known, usual latencies. While a
// latency is slow, the latter are from before it rose, for a day at most.
type Signals []Signal

// Add appends the minute before t, and updates earlier minutes with requests reported since. Slow requests report late, so
// the first latencies of a minute miss them. s is not changed.
func (s Signals) Add(t time.Time, windows []features.Window, m *features.PoolMinute) Signals {
	unknown := math.NaN()
	s = append(slices.Clone(s), Signal{Minute: t.Unix()/60 - 1, TTFT: unknown, ITL: unknown, Waiting: m.State.WaitingPerReady, KVUse: m.State.KVUsedMax})
	for _, l := range features.Latencies(windows, m.Pool) {
		minute := l.Start.Unix() / 60
		for i := len(s) - 1; i >= 0 && s[i].Minute >= minute; i-- {
			// Classes are updated at different times. The version with more requests is more complete.
			if x := &s[i]; x.Minute == minute && l.Reports >= x.Reports {
				x.Reports, x.TTFT, x.ITL = l.Reports, l.TTFT, l.ITL
			}
		}
	}
	return s.prune().markSlow()
}

// prune deletes the minutes that are not needed any more.
func (s Signals) prune() Signals {
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

// markSlow marks the newest minutes as slow if their latencies are above the usual ones, until they are back.
func (s Signals) markSlow() Signals {
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

// Thresholds of a change: the median of the newest five minutes with known latencies against the minutes before.
const (
	recentMinutes = 5
	latestMinutes = 15 // largest age of the newest five
	fewestRecent  = 3
	fewestBefore  = 10
	minRise       = 1.25 // factor from which a latency is slow, if also above the 90th percentile before
	endRise       = 1.1  // factor below which it is usual again
	queues        = 1.0  // waiting requests per ready replica
	kvFull        = 0.85
)

// Diagnose finds the bottleneck from the change of latencies. Only the first token is slower: prefill. Only the next tokens
// are slower: decode. Both are slower and requests queue: slots. If requests queue while KV memory is full, it is KV
// memory, because it bounds how many requests run. The result lasts until latencies are usual again. O(n log n).
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

// binds is the bottleneck, given slow latencies, waiting requests per ready replica and the KV use of the fullest one.
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

// Symptoms are the evidence of a diagnosis: medians over the newest minutes, and over the hour before. Latencies are 90th
// percentiles of a minute, in seconds; NaN is unknown.
type Symptoms struct {
	_ struct{} `cbor:",toarray"`

	TTFT, TTFTBefore, ITL, ITLBefore float64
	Waiting                          float64 // requests per ready replica
	KVUse                            float64 // of the fullest replica, 0…1
}

// Diagnosed is the diagnosis and its evidence in sentences; "" without a diagnosis.
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

// latency is s seconds in two digits, or in whole minutes.
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

// now are the newest minutes, with or without latencies.
func (s Signals) now() Signals { return s[max(0, len(s)-recentMinutes):] }

func (x *Signal) known() bool { return !math.IsNaN(x.TTFT) && !math.IsNaN(x.ITL) }

// split returns the minutes with known latencies: the newest few that are not too old, and the usual ones before.
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

// middle is the median of the known values; NaN without any.
func (s Signals) middle(of func(*Signal) float64) float64 {
	v := s.values(of)
	if len(v) == 0 {
		return math.NaN()
	}
	return middle(v)
}

// rises reports whether a latency is clearly above the usual one, or still above it if it was slow.
func rises(before, recent Signals, of func(*Signal) float64, slow bool) bool {
	usual, now := before.values(of), middle(recent.values(of))
	if slow {
		return now >= endRise*middle(usual)
	}
	return now >= minRise*middle(usual) && now > usual[len(usual)*9/10]
}

// values are the known values, ascending.
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
