package pipeline

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// A call counts as demand once, whichever of its attempts have records, and in any order.
func TestCallsCountOnce(t *testing.T) {
	const end, arrived = ingest.PhaseFinished, ingest.PhaseArrived
	type record struct {
		id      string
		attempt int
		phase   ingest.Phase
		again   bool
	}
	for name, records := range map[string][]record{
		"retries":                      {{"a", 1, end, false}, {"a", 2, end, true}, {"a", 3, end, true}},
		"first rejected":               {{"a", 1, ingest.PhaseRejected, false}, {"a", 2, end, true}},
		"first missing":                {{"a", 2, end, false}, {"a", 3, end, true}, {"a", 4, end, true}},
		"first late":                   {{"a", 2, end, false}, {"a", 1, end, true}, {"a", 3, end, true}},
		"second late":                  {{"a", 3, end, false}, {"a", 2, end, true}, {"a", 1, end, true}},
		"with arrivals":                {{"a", 1, arrived, false}, {"a", 2, arrived, true}, {"a", 1, end, false}, {"a", 2, end, true}},
		"with arrivals, first missing": {{"a", 2, arrived, false}, {"a", 2, end, false}, {"a", 3, arrived, true}, {"a", 3, end, true}},
		"many attempts":                {{"a", 1, end, false}, {"a", 9, end, true}},
		"without an id, by number":     {{"", 1, end, false}, {"", 1, end, false}, {"", 2, end, true}},
		"three calls":                  {{"a", 1, end, false}, {"b", 2, end, false}, {"c", 1, end, false}, {"b", 1, end, true}},
		"first forgotten":              {{"a", 1, arrived, false}, {"a", 2, arrived, true}, {"", 0, end, false}, {"a", 2, end, true}},
	} {
		seen, c := ingest.NewDeduper(100), calls{}
		for i, x := range records {
			if name == "first forgotten" && x.id == "" {
				seen = ingest.NewDeduper(100)
				seen.Seen("p", "a", 2, arrived)
				continue
			}
			r := ingest.Request{Pool: "p", ID: x.id, Attempt: x.attempt, Phase: x.phase}
			if got, duplicate, ended := c.register(&r, seen); got.CallCounted != x.again || duplicate || ended {
				t.Errorf("%s: record %d, attempt %d: %+v, again %v", name, i, x.attempt, got, x.again)
			}
			saved := seen.State()
			seen = ingest.NewDeduper(100)
			seen.Restore(saved)
		}
	}
}

// A request counts once if it has a record at arrival and one at the end, in either order.
func TestRequestsCountOnce(t *testing.T) {
	end := ingest.Request{
		ID: "a", Pool: "p", Class: "chat", Attempt: 1, ArrivedAt: midnight.Add(10 * time.Second), StartedAt: midnight.Add(11 * time.Second),
		FirstTokenAt: midnight.Add(12 * time.Second), FinishedAt: midnight.Add(30 * time.Second),
		PromptTokens: 100, CachedTokens: 40, OutputTokens: 20, MaxOutputTokens: ingest.Unknown,
	}
	arrival := ingest.Request{
		ID: "a", Pool: "p", Class: "chat", Attempt: 1, ArrivedAt: end.ArrivedAt, Phase: ingest.PhaseArrived,
		PromptTokens: 100, CachedTokens: ingest.Unknown, OutputTokens: ingest.Unknown, MaxOutputTokens: ingest.Unknown,
	}
	cancelled, rejected := end, end
	cancelled.Phase, cancelled.FinishedAt, cancelled.OutputTokens = ingest.PhaseCancelled, end.FinishedAt.Add(time.Second), ingest.Unknown
	rejected.Phase = ingest.PhaseRejected
	short := arrival
	short.PromptTokens = ingest.Unknown
	nameless := arrival
	nameless.ID = ""
	window := func(records ...ingest.Request) (w features.Window) {
		p := New(eventConfig(t, "p"))
		emit := func(o *Output) {
			for i := range o.Windows {
				if o.Windows[i].Start.Equal(midnight) {
					w = o.Windows[i]
				}
			}
		}
		for _, r := range records {
			p.Apply(&ingest.Batch{Requests: []ingest.Request{r}}, emit)
		}
		p.Apply(&ingest.Batch{Watermark: &ingest.Watermark{At: midnight.Add(time.Minute)}}, emit)
		return w
	}
	want := window(end)
	if want.Requests != 1 || want.PromptTokens != 100 || want.CachedTokens != 40 || want.OutputTokens != 20 {
		t.Fatalf("one record: %+v", want)
	}
	for name, records := range map[string][]ingest.Request{
		"arrival first":          {arrival, end},
		"end first":              {end, arrival},
		"each twice":             {arrival, arrival, end, arrival, end},
		"prompt known at end":    {short, end},
		"arrival without its id": {nameless, end},
		"two ends":               {end, cancelled, rejected},
		"two ends and arrival":   {arrival, end, cancelled, arrival},
	} {
		if diff := cmp.Diff(want, window(records...)); diff != "" {
			t.Errorf("%s (-one record +more):\n%s", name, diff)
		}
	}
}
