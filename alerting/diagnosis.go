package alerting

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
)

// Bottleneck is the resource that is short, as latencies over their objectives show.
type Bottleneck string

// The bottlenecks.
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

// binds is the bottleneck, given which latencies are over their objectives, the waiting requests per ready replica and
// the KV use of the fullest one. If requests queue while KV memory is full, it is KV memory, because it bounds how many
// requests run.
func binds(ttft, itl bool, waiting, kvUse float64) Bottleneck {
	const queues, kvFull = 1.0, 0.85
	switch waits := waiting >= queues; {
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

// Signal is the latencies and queues of a pool in one minute. NaN is unknown.
type Signal struct {
	_ struct{} `cbor:",toarray"`

	Minute    int64   // since 1970
	Reports   float64 // number of requests behind the latencies
	TTFT, ITL float64 // 90th percentiles of time to first token and time per output token of its requests, seconds
	Waiting   float64 // requests per ready replica at the end of the minute
	KVUse     float64 // of the fullest replica at the end, 0…1
}

// Signals are the newest latestMinutes of a pool, oldest first.
type Signals []Signal

// Add appends the minute before t, and updates earlier minutes with requests reported since. Slow requests report late, so
// the first latencies of a minute miss them. s is not changed.
func (s Signals) Add(t time.Time, windows []features.Window, m *features.PoolMinute) Signals {
	unknown := math.NaN()
	s = append(slices.Clone(s[max(0, len(s)+1-latestMinutes):]),
		Signal{Minute: t.Unix()/60 - 1, TTFT: unknown, ITL: unknown, Waiting: m.State.WaitingPerReady, KVUse: m.State.KVUsedMax})
	for _, l := range features.Latencies(windows, m.Pool) {
		for i := range s {
			// Classes are updated at different times. The version with more requests is more complete.
			if x := &s[i]; x.Minute == l.Start.Unix()/60 && l.Reports >= x.Reports {
				x.Reports, x.TTFT, x.ITL = l.Reports, l.TTFT, l.ITL
			}
		}
	}
	return s
}

// median of the known values; NaN without any.
func (s Signals) median(of func(*Signal) float64) float64 {
	var known []float64
	for i := range s {
		if v := of(&s[i]); !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return math.NaN()
	}
	slices.Sort(known)
	return (known[(len(known)-1)/2] + known[len(known)/2]) / 2
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
