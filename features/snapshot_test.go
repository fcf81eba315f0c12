package features

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// step is one call of an Aggregator. It returns the result.
type step func(a *Aggregator) any

// drawSteps draws records of all kinds, in and out of order, some of them refused, and calls of Close.
func drawSteps(t *rapid.T) (steps []step) {
	minute := 1
	for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
		now := float64(minute)*60 - rapid.Float64Range(-30, 200).Draw(t, "age")
		switch rapid.IntRange(0, 10).Draw(t, "kind") {
		case 0, 1, 2, 3:
			r := changed(drawnRequest(t, rapid.IntRange(0, 9).Draw(t, "id")),
				phase(ingest.Phase(rapid.IntRange(0, 3).Draw(t, "phase"))), attempt(rapid.IntRange(1, 2).Draw(t, "attempt")),
				ofClass(fmt.Sprint("c", rapid.IntRange(0, 5).Draw(t, "class"))))
			shift := at(now).Sub(r.ArrivedAt)
			for _, at := range []*time.Time{&r.ArrivedAt, &r.StartedAt, &r.FirstTokenAt, &r.FinishedAt} {
				*at = at.Add(shift)
			}
			r.Tenant = fmt.Sprint("t", rapid.IntRange(0, 30).Draw(t, "tenant"))
			steps = append(steps, func(a *Aggregator) any { return a.addRequest(r) })
		case 4:
			known := rapid.SampledFrom([]float64{math.NaN(), 0, 3, 250})
			s := &ingest.Sum{Pool: "p", Class: "c1", Start: at(now), Requests: known.Draw(t, "requests"),
				PromptTokens: known.Draw(t, "prompt"), CachedTokens: known.Draw(t, "cached"), OutputTokens: known.Draw(t, "output")}
			steps = append(steps, func(a *Aggregator) any { return a.AddSum(s) })
		case 5:
			r := reported(fmt.Sprint("r", rapid.IntRange(0, 3).Draw(t, "replica")), now, ingest.ReplicaState(rapid.IntRange(0, 4).Draw(t, "state")))
			r.PreemptionsTotal = int64(i)
			steps = append(steps, func(a *Aggregator) any { a.AddReplica(r); return nil })
		case 6:
			w := &ingest.Watermark{Pool: rapid.SampledFrom([]string{"p", "q", ""}).Draw(t, "pool"), At: at(now)}
			steps = append(steps, func(a *Aggregator) any { a.AddWatermark(w); return nil })
		default:
			minute += rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2, 9}).Draw(t, "minutes")
			end := at(float64(minute) * 60)
			steps = append(steps, func(a *Aggregator) any {
				windows, pools := a.Close(end)
				out := closed{Pools: append([]PoolMinute(nil), pools...)}
				for _, w := range windows {
					out.Windows = append(out.Windows, detached(w))
				}
				for i := range out.Pools {
					s := &out.Pools[i].State
					s.PendingSince = append([]time.Time(nil), s.PendingSince...)
				}
				return out
			})
		}
	}
	return steps
}

type closed struct {
	Windows []Window
	Pools   []PoolMinute
}

// difference of two results. Most are equal, and cmp is slow.
func difference(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs())
}

// A restored Aggregator returns the same results as the original, and ends in the same state.
func TestRestore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := drawSteps(rt)
		cut := rapid.IntRange(0, len(steps)).Draw(rt, "cut")
		a := New(testConfig())
		for _, s := range steps[:cut] {
			s(a)
		}
		b := restarted(t, a, testConfig())
		if !bytes.Equal(bytesOf(t, a), bytesOf(t, b)) {
			rt.Fatal("the restored state is another one")
		}
		for i, s := range steps[cut:] {
			want, got := s(a), s(b)
			if diff := difference(want, got); diff != "" {
				rt.Fatalf("step %d after the snapshot (-original +restored):\n%s", i, diff)
			}
		}
		if !bytes.Equal(bytesOf(t, a), bytesOf(t, b)) {
			rt.Fatal("the states differ at the end")
		}
	})
}

func TestRestoreAfterReviseChanged(t *testing.T) {
	cfg := testConfig()
	a := New(cfg)
	for m := range 3 {
		mustAdd(t, a, request(fmt.Sprint(m), float64(m)*60+1))
		a.Close(at(float64(m+1) * 60))
	}
	cfg.Revise = Minute
	b := restarted(t, a, cfg)
	var h history
	h.closeUntil(t, b, 4, 4)
	if len(h.newest) != 2 || h.window(t, "chat", 2).Requests != 1 {
		t.Errorf("with a shorter revise span the windows are %v", slices.Collect(maps.Keys(h.newest)))
	}
}

func TestRestoreTruncated(t *testing.T) {
	a := New(testConfig())
	mustAdd(t, a, changed(request("a", 1), phase(ingest.PhaseArrived)))
	a.AddReplica(reported("r", 1, ingest.ReplicaReady))
	data := bytesOf(t, a)
	for n := range data {
		if _, err := Restore(testConfig(), cbor.NewDecoder(bytes.NewReader(data[:n])).Decode); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", n, len(data))
		}
	}
}

// bytesOf is the snapshot of a.
func bytesOf(t testing.TB, a *Aggregator) []byte {
	t.Helper()
	options := cbor.CoreDetEncOptions()
	options.Time = cbor.TimeRFC3339Nano
	mode, err := options.EncMode()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := a.Parts(mode.NewEncoder(&b).Encode); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// restarted stores a and restores it.
func restarted(t testing.TB, a *Aggregator, cfg Config) *Aggregator {
	t.Helper()
	b, err := Restore(cfg, cbor.NewDecoder(bytes.NewReader(bytesOf(t, a))).Decode)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
