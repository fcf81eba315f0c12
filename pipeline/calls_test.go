package pipeline

import (
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

// Each call is demand once, whichever of its attempts were seen and in whatever order.
func TestACallIsDemandOnce(t *testing.T) {
	const end, arrived = ingest.PhaseFinished, ingest.PhaseArrived
	type record struct {
		id      string
		attempt int
		phase   ingest.Phase
		again   bool
	}
	for name, records := range map[string][]record{
		"retries":                    {{"a", 1, end, false}, {"a", 2, end, true}, {"a", 3, end, true}},
		"first was rejected":         {{"a", 1, ingest.PhaseRejected, false}, {"a", 2, end, true}},
		"first not seen":             {{"a", 2, end, false}, {"a", 3, end, true}, {"a", 4, end, true}},
		"first comes late":           {{"a", 2, end, false}, {"a", 1, end, true}, {"a", 3, end, true}},
		"second comes late":          {{"a", 3, end, false}, {"a", 2, end, true}, {"a", 1, end, true}},
		"with arrivals":              {{"a", 1, arrived, false}, {"a", 2, arrived, true}, {"a", 1, end, false}, {"a", 2, end, true}},
		"with arrivals, not seen":    {{"a", 2, arrived, false}, {"a", 2, end, false}, {"a", 3, arrived, true}, {"a", 3, end, true}},
		"many attempts":              {{"a", 1, end, false}, {"a", 9, end, true}},
		"without an id, by number":   {{"", 1, end, false}, {"", 1, end, false}, {"", 2, end, true}},
		"another call is another":    {{"a", 1, end, false}, {"b", 2, end, false}, {"c", 1, end, false}, {"b", 1, end, true}},
		"forgotten since it arrived": {{"a", 1, arrived, false}, {"a", 2, arrived, true}, {"", 0, end, false}, {"a", 2, end, true}},
	} {
		seen, c := ingest.NewDeduper(100), newCalls()
		for i, x := range records {
			if name == "forgotten since it arrived" && x.id == "" {
				seen = ingest.NewDeduper(100)
				seen.Seen("p", "a", 2, arrived)
				continue
			}
			r := ingest.Request{Pool: "p", ID: x.id, Attempt: x.attempt, Phase: x.phase}
			seen.Seen(r.Pool, r.ID, r.Attempt, r.Phase)
			if got := c.alreadyCounted(&r, seen); got != x.again {
				t.Errorf("%s: record %d, attempt %d: again %v, want %v", name, i, x.attempt, got, x.again)
			}
			c.adopted = ingest.RestoreDeduper(c.adopted.State())
		}
	}
}
