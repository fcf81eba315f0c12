package features

import (
	"fmt"
	"math"
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

func rejection(id string, arrived float64, change ...func(*ingest.Request)) *ingest.Request {
	return changed(request(id, arrived), append([]func(*ingest.Request){phase(ingest.PhaseRejected), tokens(100, ingest.Unknown, ingest.Unknown)}, change...)...)
}

// withHistory is an Aggregator that has requests of class chat with 100 prompt tokens, half of them cached, and 20
// output tokens, and of class long with 10,000 prompt tokens, none cached, and 200 output tokens.
func withHistory(t *testing.T) *Aggregator {
	a := New(testConfig())
	for i := range 300 {
		mustAdd(t, a, changed(request("", float64(i)/10), tokens(100, 50, 20)))
		mustAdd(t, a, changed(request("", float64(i)/10), ofClass("long"), tokens(10_000, 0, 200)))
	}
	return a
}

// Requests that are rejected, cancelled in the queue or fail count as demand with the tokens that are expected of their class.
func TestExpectedDemand(t *testing.T) {
	cancelled := func(r *ingest.Request) { r.Phase = ingest.PhaseCancelled }
	limit := func(n int64) func(*ingest.Request) { return func(r *ingest.Request) { r.MaxOutputTokens = n } }
	for name, tt := range map[string]struct {
		r                       *ingest.Request
		prefill, output, within float64 // tokens; within is the tolerance of output, relative
	}{
		"short":                  {rejection("a", 70), 50, 20, .1},
		"long":                   {rejection("a", 70, ofClass("long"), tokens(10_000, ingest.Unknown, ingest.Unknown)), 10_000, 200, .05},
		"limited":                {rejection("a", 70, limit(8)), 50, 8, 0},
		"cached by a gateway":    {rejection("a", 70, tokens(100, 100, ingest.Unknown)), 50, 20, .1},
		"cancelled in the queue": {changed(request("a", 70), cancelled, tokens(100, ingest.Unknown, 0)), 50, 20, .1},
		"failed beyond the mean": {changed(request("a", 70), func(r *ingest.Request) { r.Status = ingest.StatusError }, tokens(100, 50, 400), times(70, 71, 72)), 50, 420, .05},
		"failed":                 {changed(request("a", 70), func(r *ingest.Request) { r.Status = ingest.StatusError }, tokens(100, 50, 5)), 50, 25, .1},
		"new class":              {rejection("a", 70, ofClass("new")), 99.5, 110, .05},
	} {
		a, h := withHistory(t), history{}
		h.closeUntil(t, a, 1, 1)
		mustAdd(t, a, tt.r)
		cover(a, 600)
		h.closeUntil(t, a, 2, 9)
		class, dims := tt.r.Class, map[string]float64{}
		for m := 1; m < 9; m++ {
			w := h.window(t, class, m)
			for _, d := range []string{DimRequests, DimPrefill, DimDecode, DimKV} {
				v, ok := valueIn(d, &w)
				if m == 1 && !ok {
					t.Errorf("%s: %s is not known", name, d)
				}
				dims[d] += v * 60
			}
		}
		if dims[DimRequests] != 1 || math.Abs(dims[DimPrefill]/tt.prefill-1) > .05 || math.Abs(dims[DimDecode]/tt.output-1) > tt.within+1e-9 {
			t.Errorf("%s: %.2f requests, %.1f tokens to prefill, %.1f to decode, want 1, %v, %v", name, dims[DimRequests], dims[DimPrefill], dims[DimDecode], tt.prefill, tt.output)
		}
		// 1000 tokens/s of prefill and 100 tokens/s of output, as configured.
		prompt := float64(tt.r.PromptTokens)
		if want := prompt*dims[DimPrefill]/1000 + .01*(prompt*tt.output+tt.output*tt.output/2); math.Abs(dims[DimKV]/want-1) > .4 {
			t.Errorf("%s: %.0f token-seconds, want about %.0f", name, dims[DimKV], want)
		}
	}
}

// withQueue closes six minutes. In each of the first ones a replica reports more waiting requests. r arrives in minute 1.
func withQueue(t *testing.T, a *Aggregator, more int64, r *ingest.Request) (h history) {
	t.Helper()
	cover(a, 600)
	for m := range 6 {
		report := reported("r", float64(m)*60, ingest.ReplicaReady)
		report.Waiting = more * int64(m)
		if m < 4 { // the last ones end minutes 0, 1 and 2
			a.AddReplica(report)
		}
		h.closeUntil(t, a, m, m)
		if m == 1 {
			mustAdd(t, a, r)
		}
	}
	return h
}

// Who cancels an answer that is coming wants no more of it: the demand is what was served. While a queue grows, the whole
// answer counts.
func TestDemandOfStoppedRequests(t *testing.T) {
	for queue, want := range map[int64]float64{0: 5, 8: 25} {
		h := withQueue(t, withHistory(t), queue, changed(request("a", 61), phase(ingest.PhaseCancelled), tokens(100, 50, 5), times(61, 62, 63)))
		w := h.window(t, "chat", 1)
		if v, ok := valueIn(DimDecode, &w); !ok || math.Abs(v*60/want-1) > .1 || w.Censored != (queue > 0) || w.OutputWasted != 5 {
			t.Errorf("a queue of %d more a minute: %.1f tokens, censored %v, wasted %v; want %v and 5 wasted", queue, v*60, w.Censored, w.OutputWasted, want)
		}
	}
}

// In a class without finished requests the output of a rejected one is unknown, unless the request limits it.
func TestExpectedDemandUnknown(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, rejection("a", 1))
	w, _ := a.Close(at(60))
	wantDims(t, w[0], map[string]float64{DimRequests: 1. / 60, DimPrefill: 100. / 60, DimDecode: unknown, DimKV: unknown})
	a = New(testConfig())
	mustAdd(t, a, rejection("a", 1, func(r *ingest.Request) { r.MaxOutputTokens = 30 }))
	w, _ = a.Close(at(60))
	wantDims(t, w[0], map[string]float64{DimDecode: 30. / 60})
}

// Retries are not demand. A retry whose first attempt was not reported is the call.
func TestDemandOfRetries(t *testing.T) {
	a, h := New(testConfig()), history{}
	mustAdd(t, a, changed(request("a", 1), attempt(2), tokens(100, 50, 20), times(10, 20, 100)), changed(request("b", 2), attempt(2)))
	cover(a, 600)
	h.closeUntil(t, a, 1, 4)
	for m := range 2 {
		wantDims(t, h.window(t, "chat", m), map[string]float64{DimRequests: 0, DimPrefill: 0, DimDecode: 0, DimKV: 0})
	}
	wantDims(t, h.window(t, "chat", 0), map[string]float64{DimRetry: 2. / 60})
	if w := h.window(t, "chat", 1); w.KVTokenSeconds == 0 || w.OutputTokens != 10 {
		t.Errorf("the retry holds %v token-seconds and generates %v tokens, want some and 10", w.KVTokenSeconds, w.OutputTokens)
	}
	if reason := a.AddAttempt(changed(request("c", 250), attempt(3)), Earlier{}); reason != "" {
		t.Fatal(reason)
	}
	h.closeUntil(t, a, 5, 5)
	wantDims(t, h.window(t, "chat", 4), map[string]float64{DimRequests: 1. / 60, DimPrefill: 100. / 60, DimDecode: 20. / 60, DimRetry: 0})
}

// While a queue grows, a request is demand of the minute in which it arrived. Otherwise it is demand while it is
// served.
func TestDemandOfQueuedRequests(t *testing.T) {
	for _, queue := range []int64{0, 8} {
		h := withQueue(t, New(testConfig()), queue, changed(request("a", 61), tokens(100, 0, 50), times(125, 125.5, 130)))
		// 0.1 s of prefill and 0.5 s of decoding when there is no queue.
		asked, held := 100*.6+50*.5/2, 100*5+50*4.5/2
		want := map[bool][2]map[string]float64{
			true:  {{DimDecode: 50. / 60, DimKV: asked / 60}, {DimDecode: 0, DimKV: 0}},
			false: {{DimDecode: 0, DimKV: 0}, {DimDecode: 50. / 60, DimKV: held / 60}},
		}[queue > 0]
		for m := range want {
			w := h.window(t, "chat", m+1)
			wantDims(t, w, want[m])
			if w.Censored != (queue > 0) || h.pools[m+1].QueueGrowing != (queue > 0) {
				t.Errorf("queue of %d, minute %d: censored %v, growing %v", queue, m+1, w.Censored, h.pools[m+1].QueueGrowing)
			}
		}
	}
}

func TestCensoredMinutes(t *testing.T) {
	type minute struct {
		rejected, served int // a negative number of rejected ones is failed ones
		wait             float64
	}
	for name, tt := range map[string]struct {
		minutes []minute
		want    string // of each minute: "." free, "g" queue growing, "c" censored
	}{
		"free":              {[]minute{{0, 20, 0}, {0, 20, .5}, {0, 20, 0}}, "..."},
		"one rejection":     {[]minute{{0, 20, 0}, {1, 20, 0}, {0, 20, 0}}, "..."},
		"rejections":        {[]minute{{0, 20, 0}, {5, 20, 0}, {0, 20, 0}}, ".g."},
		"failures":          {[]minute{{0, 20, 0}, {-5, 20, 0}, {0, 20, 0}}, "..."},
		"waits grow":        {[]minute{{0, 20, 0}, {0, 20, 9}, {0, 20, 25}, {0, 20, 20}, {0, 20, 8}, {0, 20, 1}}, ".ggcc."},
		"long but steady":   {[]minute{{0, 20, 10}, {0, 20, 11}, {0, 20, 10}}, "..."},
		"too few":           {[]minute{{0, 3, 0}, {0, 3, 30}, {0, 3, 60}}, "..."},
		"after a quiet one": {[]minute{{0, 0, 0}, {0, 20, 20}, {0, 20, 20}}, "..."},
	} {
		cfg := testConfig()
		cfg.Revise = 10 * Minute
		a, h := New(cfg), history{}
		mustAdd(t, a, request("", 0))
		n := 0
		for m, x := range tt.minutes {
			for range max(x.rejected, -x.rejected) {
				n++
				r := rejection(fmt.Sprint(n), float64(m)*60+30)
				if x.rejected < 0 {
					r.Phase, r.Status = ingest.PhaseFinished, ingest.StatusError
				}
				mustAdd(t, a, r)
			}
			for range x.served {
				n++
				s := float64(m)*60 + 30
				mustAdd(t, a, changed(request(fmt.Sprint(n), s), times(s+x.wait, s+x.wait+1, s+x.wait+2)))
			}
		}
		cover(a, 3600)
		h.closeUntil(t, a, 1, len(tt.minutes)+12)
		got := ""
		for m := range tt.minutes {
			switch w := h.window(t, "chat", m); {
			case h.pools[m].QueueGrowing != (w.Censored && h.pools[m].QueueGrowing):
				got += "?"
			case h.pools[m].QueueGrowing:
				got += "g"
			case w.Censored:
				got += "c"
			default:
				got += "."
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// The expected output includes what cancelled requests would have generated (censored data).
func TestExpectedOutputOfCancelledRequests(t *testing.T) {
	a := New(testConfig())
	for i := range 4000 {
		length := int64(-100 * math.Log((float64(i*2654435761%4000)+.5)/4000)) // exponential
		r := changed(request("", float64(i)/100), tokens(100, 0, length))
		if cut := int64(i * 7 % 150); cut < length {
			r = changed(r, tokens(100, 0, cut), func(r *ingest.Request) { r.Status = ingest.StatusCancelled })
			r.StartedAt = r.ArrivedAt
		}
		mustAdd(t, a, r)
	}
	c := a.pools[0].classes[0]
	if got := c.Expected.Output.of(); math.Abs(got/100-1) > .05 {
		t.Errorf("the expected output is %.1f tokens, want 100", got)
	}
}
