package alerting

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
)

// promptMinute is a settled minute of n prompts around a length.
func promptMinute(r *rand.Rand, class string, minute, n int, length float64) features.Window {
	w := features.Window{Key: features.Key{Pool: "chat", Class: class}, Start: time.Unix(60*int64(minute), 0), Settled: true, Prompt: &sketch.Quantile{}}
	for range n {
		x := length * math.Exp(.7*r.NormFloat64())
		w.Prompt.Add(x)
		w.PromptTokens += x
	}
	w.Tenants = &features.Ranking{Top: []sketch.Count{{Name: "acme", Weight: 90}}, Total: 100}
	return w
}

func TestUnboundedPrompts(t *testing.T) {
	for _, c := range []struct {
		name    string
		longest float64
		rate    func(m int) int // prompts a minute
		length  func(m int) float64
		want    []string // in the description; none is no alert
	}{
		{"steady", 400e3, func(int) int { return 30 }, func(int) float64 { return 1000 }, nil},
		{"bursts of the same prompts", 400e3, func(m int) int { return 5 + 195*(m/20%2) }, func(int) float64 { return 1000 }, nil},
		{"few prompts", 400e3, func(int) int { return 1 }, func(int) float64 { return 1000 }, nil},
		{"somewhat longer", 400e3, func(int) int { return 30 }, func(m int) float64 { return 1000 * (1 + .4*max(0, float64(m-600))/120) }, nil},
		{"growing", 400e3, func(int) int { return 30 }, func(m int) float64 { return 1000 * (1 + 4*max(0, float64(m-600))/120) },
			[]string{"class rag, tenant acme (90 % of it)", "times what it was in the last day"}},
		{"at the context", 5000, func(int) int { return 30 }, func(int) float64 { return 1000 }, []string{"class rag, tenant acme", "a replica takes at most 5k"}},
		{"a bound that is not known", 0, func(int) int { return 30 }, func(int) float64 { return 1000 }, nil},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		var p Prompts
		for m := range 720 {
			p.Observe("chat", []features.Window{promptMinute(r, "rag", m, c.rate(m), c.length(m)), promptMinute(r, "tiny", m, 1, math.Exp2(float64(m)/100)/20)})
		}
		got := p.Condition(&Decision{Pool: "chat", Mode: Active}, c.longest, DefaultConfig())
		if len(c.want) == 0 {
			if len(got) > 0 && !got[0].Fading {
				t.Errorf("%s: %s", c.name, got[0].Annotations["summary"])
			}
			continue
		}
		if len(got) != 1 || got[0].Fading || got[0].Name != UnboundedPrompts || got[0].Class != "rag" {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		checkWords(t, c.name, &got[0])
		for _, want := range c.want {
			if text := got[0].Annotations["description"]; !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", c.name, want, text)
			}
		}
	}
}

// What is followed is bounded, and comes back from a snapshot.
func TestPromptsAreBoundedAndRestored(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var p Prompts
	for m := range 30 {
		var windows []features.Window
		for class := range 100 {
			windows = append(windows, promptMinute(r, string(rune('0'+class)), m, 10, float64(100*class+1)))
		}
		p.Observe("chat", windows)
	}
	if len(p) != promptClasses || p[len(p)-1].Class != string(rune('0'+99)) {
		t.Fatalf("%d classes are followed", len(p))
	}
	text, err := cbor.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var again Prompts
	if err := cbor.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, again, cmp.Comparer(func(a, b *sketch.Quantile) bool {
		return a == nil && b == nil || a != nil && b != nil && a.Sum() == b.Sum() && a.Quantile(.5) == b.Quantile(.5) || a.Count() == 0 && b.Count() == 0
	}), cmp.AllowUnexported(PromptTrend{})); diff != "" {
		t.Error(diff)
	}
}
