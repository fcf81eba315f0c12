package features

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/ingest"
)

// TestWhenRequestsAreFoldedShowsNowhere: an Aggregator that folds each record at once says what one says that lets them
// wait, bit for bit, whatever comes between them.
func TestWhenRequestsAreFoldedShowsNowhere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := drawSteps(rt)
		later, atOnce := New(testConfig()), New(testConfig())
		for i, s := range steps {
			got, want := s(later), s(atOnce)
			atOnce.catchUp()
			if diff := difference(want, got); diff != "" {
				rt.Fatalf("step %d (-at once +later):\n%s", i, diff)
			}
			if later.Counters() != atOnce.Counters() {
				rt.Fatalf("step %d: counters %+v, want %+v", i, later.Counters(), atOnce.Counters())
			}
			if rapid.IntRange(0, 9).Draw(rt, "look") == 0 && !bytes.Equal(bytesOf(t, atOnce), bytesOf(t, later)) {
				rt.Fatalf("step %d: the states differ", i)
			}
		}
		if !bytes.Equal(bytesOf(t, atOnce), bytesOf(t, later)) {
			rt.Fatal("the states differ at the end")
		}
	})
}

// manyRequests are requests of all kinds, drawn, in the order of their ends, in as many classes and with names that lie
// elsewhere in memory now and then.
func manyRequests(n, classes int, draw *rand.Rand) []*ingest.Request {
	rs := make([]*ingest.Request, n)
	for i := range rs {
		arrived := float64(i) * 300 / float64(n)
		r := changed(request(fmt.Sprint(i), arrived), ofClass(fmt.Sprint("c", draw.IntN(classes))), tokens(draw.Int64N(5000), draw.Int64N(100)-1, draw.Int64N(700)-1))
		r.Tenant = fmt.Sprint("t", draw.IntN(50))
		if draw.IntN(4) > 0 {
			times(arrived+draw.Float64(), arrived+1, arrived+1+draw.Float64()*100)(r)
		}
		switch draw.IntN(20) {
		case 0:
			phase(ingest.PhaseRejected)(r)
		case 1:
			phase(ingest.PhaseCancelled)(r)
		case 2:
			r.Status = ingest.StatusError
		case 3:
			attempt(2)(r)
		case 4:
			began := arrived - 400*draw.Float64() // in minutes that are settled, some of them
			r.ArrivedAt = at(began)
			times(began, began+1, arrived)(r)
		case 5:
			r.StartedAt, r.FinishedAt = at(arrived+5), at(arrived+4)
		case 6:
			r.FinishedAt = at(arrived + 3600*draw.Float64()*2)
		}
		rs[i] = r
	}
	return rs
}

// TestBacklogOfManyClasses folds so many requests that the backlog fills up again and again, and is asked for one class now
// and then.
func TestBacklogOfManyClasses(t *testing.T) {
	for _, classes := range []int{1, 7, 300} {
		cfg := testConfig()
		cfg.MaxClasses = 200
		later, atOnce := New(cfg), New(cfg)
		most := 0
		for i, r := range manyRequests(20_000, classes, rand.New(rand.NewPCG(1, uint64(classes)))) {
			for _, a := range []*Aggregator{later, atOnce} {
				own := *r
				if i%7 == 0 {
					own.Class = strings.Clone(r.Class)
				}
				a.AddRequest(&own)
				if i%4000 == 3999 {
					a.Close(at(float64(i+1) * 300 / 20_000))
				}
			}
			atOnce.catchUp()
			most = max(most, len(later.backlog.waiting))
		}
		if later.Counters() != atOnce.Counters() || !bytes.Equal(bytesOf(t, atOnce), bytesOf(t, later)) {
			t.Errorf("%d classes: the states differ", classes)
		}
		if c := later.Counters(); c.KVBeforeOpen == 0 || c.KVBeyondOpen == 0 || c.BadTimes == 0 || c.Late == 0 {
			t.Errorf("not everything happened: %+v", c)
		}
		if most < leastBacklog/2 {
			t.Errorf("%d classes: at most %d requests waited", classes, most)
		}
	}
}

// The backlog is bounded.
func TestBacklogIsBounded(t *testing.T) {
	const classes = 2 * maxBacklog / perClass
	cfg := testConfig()
	cfg.MaxClasses = classes
	a := New(cfg)
	names := make([]string, classes)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	r, most := request("", 1), 0
	for i := range 2 * maxBacklog {
		r.Class = names[i%classes]
		mustAdd(t, a, r)
		most = max(most, len(a.backlog.waiting))
	}
	if n := most; n >= maxBacklog || n < maxBacklog/2 {
		t.Errorf("%d requests waited, the bound is %d", n, maxBacklog)
	}
}
