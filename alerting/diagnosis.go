package alerting

import (
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
	BottleneckKV      Bottleneck = "kv"      // both do, and requests queue for KV memory
	BottleneckBoth    Bottleneck = "prefill_and_decode"
)

// Signal is what one minute shows of a pool's service. NaN is unknown.
type Signal struct {
	_ struct{} `cbor:",toarray"`

	TTFT, ITL float64 // 90th percentiles of time to first token and time per output token, seconds
	Waiting   float64 // requests per ready replica
	KVUse     float64 // of the fullest replica, 0…1
}

// signalMinutes is how many minutes are told from: the last few against those before.
const signalMinutes = 60

// Signals are the newest minutes of a pool, oldest first, at most an hour.
type Signals []Signal

// Add takes in the minute before t: the first counts of the pool's classes, which all lack the same late records, and its
// state. The slice that s had is not changed.
func (s Signals) Add(t time.Time, windows []features.Window, m *features.PoolMinute) Signals {
	x := Signal{Waiting: m.State.WaitingPerReady, KVUse: m.State.KVUsedMax}
	x.TTFT, x.ITL = features.Latencies(windows, m.Pool, t.Add(-features.Minute))
	s = append(slices.Clone(s), x)
	return s[max(0, len(s)-signalMinutes):]
}

// What a change must amount to: the median of the last five minutes against the minutes before.
const (
	recentMinutes = 5
	fewestRecent  = 3
	fewestBefore  = 10
	leastRise     = 1.25 // factor, and beyond the 90th percentile before
	queues        = 1.0  // waiting requests per ready replica
	kvFull        = 0.85
)

// Diagnose tells what binds from how latencies have changed: prefill when the first token comes later and the next ones as
// before; decode when it is the other way round; when both come later and requests queue, KV memory where it is full and
// slots where it is not. O(n log n).
func (s Signals) Diagnose() Bottleneck {
	ttft, known := s.rises(func(x *Signal) float64 { return x.TTFT })
	itl, both := s.rises(func(x *Signal) float64 { return x.ITL })
	if !known || !both {
		return BottleneckNone
	}
	waiting := middle(s.recent(func(x *Signal) float64 { return x.Waiting }))
	use := middle(s.recent(func(x *Signal) float64 { return x.KVUse }))
	switch {
	case ttft && itl && waiting >= queues && use >= kvFull:
		return BottleneckKV
	case ttft && itl && waiting >= queues:
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

// rises says whether a latency is clearly above what it was; known is false when too little is known of it.
func (s Signals) rises(of func(*Signal) float64) (rises, known bool) {
	recent := s.recent(of)
	before := s[:max(0, len(s)-recentMinutes)].values(of)
	if len(recent) < fewestRecent || len(before) < fewestBefore {
		return false, false
	}
	now := middle(recent)
	was := middle(before)
	return now >= leastRise*was && now > before[len(before)*9/10], true
}

// recent are the known values of the last minutes, values of all, ascending.
func (s Signals) recent(of func(*Signal) float64) []float64 {
	return s[max(0, len(s)-recentMinutes):].values(of)
}

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
