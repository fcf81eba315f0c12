package forewarm

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/ingest"
)

func agentConfig(t testing.TB, name string) Config {
	c := eventConfig(t, "p")
	c.Agent = name
	return c
}

// collect keeps the parts that an edge publishes, as the bytes of their messages.
func collect(parts *[][]byte) func(*Output) {
	return func(o *Output) {
		for i := range o.Parts {
			*parts = append(*parts, ingest.AppendProtobuf(nil, &o.Parts[i]))
		}
	}
}

func decodePart(t testing.TB, data []byte, agent string) *ingest.Batch {
	t.Helper()
	var b ingest.Batch
	meta, _ := ingest.ParseSubject("f", ingest.WindowSubject("f", agent))
	ingest.Decode(meta, data, ingest.DefaultLimits(), &b)
	if len(b.Refused) > 0 {
		t.Fatal(b.Refused)
	}
	return &b
}

// TestEdgeIsExact: an edge that is killed and goes on from its snapshot publishes the same messages, byte for byte and by
// the same numbers; what it had published after the snapshot it publishes again as it was.
func TestEdgeIsExact(t *testing.T) {
	batches := traffic(4, 60)
	for i := range batches {
		batches[i].ReceivedAt = midnight.Add(time.Duration(i) * time.Minute)
	}
	var want [][]byte
	apply(New(agentConfig(t, "e")), batches, collect(&want))
	if len(want) < 100 { // windows and a report each minute
		t.Fatalf("%d parts", len(want))
	}
	for _, cut := range []int{1, 23, 59} {
		var got, lost [][]byte
		p := New(agentConfig(t, "e"))
		apply(p, batches[:cut], collect(&got))
		snapshot := saved(t, p)
		apply(p, batches[cut:min(cut+7, len(batches))], collect(&lost))
		q, err := Restore(agentConfig(t, "e"), bytes.NewReader(snapshot))
		if err != nil {
			t.Fatal(err)
		}
		apply(q, batches[cut:], collect(&got))
		if !slices.EqualFunc(want, got, bytes.Equal) {
			t.Errorf("restored after %d batches, the edge publishes something else", cut)
		}
	}
	if _, err := Restore(eventConfig(t, "p"), bytes.NewReader(saved(t, New(agentConfig(t, "e"))))); err == nil {
		t.Error("the state of an edge was taken for that of a daemon")
	}
}

// TestPartsCountOnce: parts that come again, out of order, or on both sides of a snapshot add up to the same windows.
func TestPartsCountOnce(t *testing.T) {
	var parts [][]byte
	apply(New(agentConfig(t, "e")), traffic(4, 24), collect(&parts))
	run := func(order []int, restart bool) (requests float64, p *Pipeline) {
		c := eventConfig(t, "p")
		c.Every = time.Hour                   // forecasts are not looked at
		c.Features.Lateness = 3 * time.Minute // for parts out of order
		c.Features.Revise = time.Hour
		p = New(c)
		newest := map[string]float64{}
		emit := func(o *Output) {
			for _, w := range o.Windows {
				newest[fmt.Sprint(w.Key, w.Start)] = w.Requests
			}
		}
		for n, i := range order {
			p.Apply(decodePart(t, parts[i], "e"), emit)
			if restart && n%9 == 0 {
				var err error
				if p, err = Restore(c, bytes.NewReader(saved(t, p))); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.Apply(&ingest.Batch{Watermark: &ingest.Watermark{Pool: "p", At: midnight.Add(time.Hour)}}, emit)
		for _, n := range newest {
			requests += n
		}
		return requests, p
	}
	var straight, mixed []int
	for i := range parts {
		straight = append(straight, i)
		mixed = append(mixed, i)
		if i%5 == 4 {
			mixed[i], mixed[i-1] = mixed[i-1], mixed[i]
		}
	}
	for i := range parts {
		mixed = append(mixed, i) // all again
	}
	want, _ := run(straight, false)
	got, p := run(mixed, true)
	if got != want || want == 0 {
		t.Errorf("%g requests, want %g", got, want)
	}
	if n := p.Counters().Refused[ingest.ReasonDuplicate]; n != uint64(len(parts)) {
		t.Errorf("%d parts were refused as duplicates, want %d", n, len(parts))
	}
	if n := p.Omissions().PartsMissing; n != 0 {
		t.Errorf("%d parts are missing", n)
	}
}

func TestAgentsTellPartsApart(t *testing.T) {
	type step struct {
		epoch    int64
		sequence uint64
		taken    bool
	}
	for name, tc := range map[string]struct {
		steps   []step
		missing uint64
	}{
		"in order":         {[]step{{1, 1, true}, {1, 2, true}, {1, 3, true}}, 0},
		"again":            {[]step{{1, 1, true}, {1, 1, false}, {1, 2, true}, {1, 1, false}, {1, 2, false}}, 0},
		"out of order":     {[]step{{1, 1, true}, {1, 3, true}, {1, 2, true}, {1, 2, false}}, 0},
		"joined later":     {[]step{{1, 900, true}, {1, 899, false}, {1, 901, true}}, 0},
		"a gap":            {[]step{{1, 1, true}, {1, 101, true}, {1, 165, true}}, 99},
		"a gap still open": {[]step{{1, 1, true}, {1, 5, true}}, 0},
		"far behind":       {[]step{{1, 100, true}, {1, 200, true}, {1, 136, false}, {1, 137, true}}, 36},
		"a new epoch":      {[]step{{1, 7, true}, {2, 1, true}, {1, 8, false}, {2, 1, false}, {2, 2, true}}, 0},
		"a hole before it": {[]step{{1, 1, true}, {1, 3, true}, {2, 2, true}, {2, 66, true}}, 1 + 1 + 0},
	} {
		var a agents
		for i, s := range tc.steps {
			p := &ingest.Part{Agent: "a", Epoch: s.epoch, Sequence: s.sequence, At: midnight}
			at, known := a.find("a")
			taken := !known || !a.list[at].seen(p)
			if taken != s.taken {
				t.Errorf("%s: step %d: taken %v", name, i, taken)
			}
			if taken && known {
				a.list[at].take(p)
			} else if taken {
				a.add(p).take(p)
			}
		}
		if n := a.missing(); n != tc.missing {
			t.Errorf("%s: %d missing, want %d", name, n, tc.missing)
		}
	}
}

func TestAgentsAreBounded(t *testing.T) {
	var a agents
	for i := range maxAgents {
		if a.add(&ingest.Part{Agent: fmt.Sprintf("%04d", i), Sequence: 1, At: midnight.Add(time.Duration(i) * time.Second)}) == nil {
			t.Fatalf("agent %d was refused", i)
		}
	}
	for i := range a.list {
		a.list[i].At = midnight.Add(time.Duration(i) * time.Second)
	}
	if a.add(&ingest.Part{Agent: "new", Sequence: 1, At: midnight.Add(agentTTL - time.Second)}) != nil {
		t.Error("one too many was taken, and another forgotten that may still be alive")
	}
	if a.add(&ingest.Part{Agent: "new", Sequence: 1, At: midnight.Add(agentTTL)}) == nil || len(a.list) != maxAgents {
		t.Error("there was no room in place of one that has been silent for a day")
	}
	if _, ok := a.find("0000"); ok {
		t.Error("the one that was silent longest is still there")
	}
}

// TestAgentRefusesItsOwn: an edge that reads what it has published must not count that again.
func TestAgentRefusesItsOwn(t *testing.T) {
	var parts [][]byte
	p := New(agentConfig(t, "e"))
	apply(p, traffic(4, 3), collect(&parts))
	b := decodePart(t, parts[0], "e")
	p.Apply(b, func(*Output) {})
	if len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonInconsistent {
		t.Error(cmp.Diff(nil, b.Refused))
	}
}
