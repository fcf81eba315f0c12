package storage

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
)

// What tenants reported in each minute can be told from what is stored, silence included, and every token is somebody's.
func TestTenants(t *testing.T) {
	reported := map[string]func(m int) float64{
		"batch": func(m int) float64 { return 90_000 * float64(m/60%2) }, // an hour on, an hour off
		"acme":  func(m int) float64 { return 30_000 + 10_000*math.Sin(float64(m)/9) },
		"small": func(int) float64 { return 5000 },
	}
	s := openStore(t, config(t.TempDir()))
	book := sketch.NewTopK(8)
	const minutes = 300
	for m := range minutes {
		for _, name := range []string{"batch", "acme", "small"} {
			book.Add(name, reported[name](m))
		}
		w := window("agent", m, 60)
		w.PromptTokens = 1000
		w.Tenants = &features.Ranking{Top: book.Top(3), Total: book.Total, Floor: book.Floor}
		if err := s.Append(minute(m+1), []features.Window{w}, nil, nil); err != nil {
			t.Fatal(err)
		}
		book.Scale(accountFade)
	}
	seen := map[string]bool{}
	err := History{Store: s}.Tokens(t.Context(), "tenant", minute(0), minute(minutes), func(key features.Key, tenant string, values []float64) error {
		seen[tenant] = true
		if key != (features.Key{Pool: "p", Class: "agent"}) {
			return fmt.Errorf("of %s", key)
		}
		for m := 91; m < minutes; m++ { // batch, who comes in minute 60, has a place by then
			want := reported["small"](m)
			if tenant != "" {
				want = reported[tenant](m)
			}
			if math.Abs(60*values[m]-want) > 1e-3*90_000 {
				return fmt.Errorf("%q in minute %d: %g tokens, want %g", tenant, m, 60*values[m], want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 3 || !seen["batch"] || !seen["acme"] || !seen[""] {
		t.Errorf("series of %v", seen)
	}
}

// Models and tiers have series of their own beside tenants and features, and the others are together.
func TestModelsAndTiers(t *testing.T) {
	s := openStore(t, config(t.TempDir()))
	rank := func(names ...string) *features.Ranking {
		r := &features.Ranking{Total: 1000}
		for i, name := range names {
			r.Top = append(r.Top, sketch.Count{Name: name, Weight: float64(int(400) >> i)})
		}
		return r
	}
	for m := range 3 {
		w := window("agent", m, 60)
		w.Models, w.Tiers, w.Features = rank("large", "small", "a", "b", "c", "d"), rank("premium", "batch"), rank("search")
		if err := s.Append(minute(m+1), []features.Window{w}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	q, err := s.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for name, want := range map[string]int{"model": 5, "tier": 3, "feature": 2, "tenant": 0} { // four at most, and the others
		n := 0
		set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "forewarm_"+name+"_tokens_per_second"))
		for set.Next() {
			n++
		}
		if n != want || set.Err() != nil {
			t.Errorf("%d series by %s, want %d; %v", n, name, want, set.Err())
		}
	}
}

// A place changes hands when another is clearly heavier than the one that has it lately was.
func TestTenantsKeepTheirPlaces(t *testing.T) {
	s := &names{}
	rank := func(hours int, weights ...float64) {
		r := &features.Ranking{}
		for i, w := range weights {
			r.Top = append(r.Top, sketch.Count{Name: string(rune('a' + i)), Weight: w})
			r.Total += w
		}
		s.rank(&accounts[0], r, (time.Duration(hours) * time.Hour).Milliseconds())
	}
	listed := func() (all string) {
		for _, x := range s.list {
			all += x.name
		}
		return all
	}
	for _, c := range []struct {
		hours   int
		weights []float64
		want    string
	}{
		{0, []float64{50, 40, 10}, "ab"},
		{1, []float64{50, 0, 70}, "ab"}, // not clearly heavier than b was an hour ago
		{24, []float64{50, 0, 70}, "ac"},
		{30, []float64{0, 0, 0, 0}, "ac"},
		{31, []float64{10, 10, 10, 10, 10, 10}, "ac"}, // nobody weighs a fifth
	} {
		if rank(c.hours, c.weights...); listed() != c.want {
			t.Errorf("after %d h: %q, want %q", c.hours, listed(), c.want)
		}
	}
}
