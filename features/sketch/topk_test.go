package sketch

import (
	"fmt"
	"math"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// stream draws names, some of them much more often than others, with weights.
func stream(t *rapid.T) (names []string, weights []float64) {
	n, most := rapid.IntRange(1, 600).Draw(t, "n"), rapid.IntRange(1, 4*Counters).Draw(t, "most")
	for range n {
		names = append(names, fmt.Sprintf("t%d", min(rapid.IntRange(0, most).Draw(t, "a"), rapid.IntRange(0, most).Draw(t, "b"))))
		weights = append(weights, float64(rapid.IntRange(1, 50).Draw(t, "w")))
	}
	return names, weights
}

// checkBounds compares a sketch with exact weights. Each weight is at least the exact one, and at most its error above
// it. Errors, and weights without a counter, are at most bound.
func checkBounds(t *rapid.T, s *TopK, exact map[string]float64, bound float64) {
	const rounding = 1e-9
	tracked := map[string]bool{}
	for _, c := range s.Top(len(s.Counts)) {
		tracked[c.Name] = true
		if truth := exact[c.Name]; truth > c.Weight+rounding || truth < c.Weight-c.Error-rounding {
			t.Fatalf("%s: the exact weight %v is not in %v..%v", c.Name, truth, c.Weight-c.Error, c.Weight)
		}
		if c.Error > bound+rounding {
			t.Fatalf("%s: error %v exceeds %v", c.Name, c.Error, bound)
		}
	}
	if s.Floor > bound+rounding {
		t.Fatalf("floor %v exceeds %v", s.Floor, bound)
	}
	for name, truth := range exact {
		if !tracked[name] && truth > s.Floor+rounding {
			t.Fatalf("%s has the weight %v and no counter, and the floor is %v", name, truth, s.Floor)
		}
	}
}

func TestTopKBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, weights := stream(t)
		s, exact, total := new(TopK), map[string]float64{}, 0.0
		for i, name := range names {
			s.Add(name, weights[i])
			exact[name] += weights[i]
			total += weights[i]
		}
		checkBounds(t, s, exact, total/Counters)
		if len(exact) <= Counters && s.Floor != 0 {
			t.Fatalf("%d names fit %d counters, but the floor is %v", len(exact), Counters, s.Floor)
		}
	})
}

func TestTopKRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, weights := stream(t)
		s := new(TopK)
		cut := rapid.IntRange(0, len(names)).Draw(t, "cut")
		for i, name := range names[:cut] {
			s.Add(name, weights[i])
			s.Scale(0.9)
		}
		data, err := cbor.Marshal(s)
		var back TopK
		if err != nil || cbor.Unmarshal(data, &back) != nil {
			t.Fatal("the sketch cannot be stored and restored")
		}
		for i, name := range names[cut:] {
			s.Add(name, weights[cut+i])
			back.Add(name, weights[cut+i])
			s.Scale(0.9)
			back.Scale(0.9)
		}
		if diff := cmp.Diff(s, &back, cmpopts.IgnoreUnexported(TopK{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("a restored sketch differs (-original +restored):\n%s", diff)
		}
	})
}

// Names of equal weight are in alphabetical order.
func TestTopKTies(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}} {
		s := new(TopK)
		for i := range Counters - len(names) {
			s.Add(fmt.Sprint("heavier", i), 9)
		}
		for _, name := range names {
			s.Add(name, 2)
		}
		s.Add("d", 1) // replaces c, the last of equal weight
		want := []Count{{"d", 3, 2}, {"a", 2, 0}, {"b", 2, 0}}
		if diff := cmp.Diff(want, s.Top(Counters)[Counters-3:]); diff != "" {
			t.Errorf("order %v (-want +got):\n%s", names, diff)
		}
	}
}

// Weight without a name counts in the total only.
func TestTopKWithoutName(t *testing.T) {
	s := new(TopK)
	s.Add("a", 3)
	s.Add("", 7)
	if s.Total != 10 || len(s.Counts) != 1 {
		t.Errorf("total %v of %d names, want 10 of 1", s.Total, len(s.Counts))
	}
}

// Weights can be scaled down any number of times, also beyond the range of float64.
func TestTopKScale(t *testing.T) {
	s, want := new(TopK), 0.0
	for i := range 12 {
		s.Add(fmt.Sprintf("old%d", i), 1e6)
	}
	for range 5000 {
		s.Scale(0.9)
		s.Add("now", 100)
		want = want*0.9 + 100
	}
	top := s.Top(2)
	if math.Abs(s.Total-want) > 1e-6 || top[0].Name != "now" || math.Abs(top[0].Weight-want) > 1e-6 {
		t.Errorf("top %v of a total of %v, want now with %v", top, s.Total, want)
	}
	if len(s.Counts) != 1 || s.Floor > negligible {
		t.Errorf("%d names, floor %v; want one name, because the others became negligible", len(s.Counts), s.Floor)
	}
}

// Weights that are not positive and finite are ignored.
func TestTopKInvalidWeights(t *testing.T) {
	s := new(TopK)
	for _, w := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		s.Add("a", w)
	}
	if len(s.Counts) != 0 || len(s.Top(-1)) != 0 {
		t.Errorf("counted %v", s.Top(9))
	}
}

func BenchmarkTopKAdd(b *testing.B) {
	s := new(TopK)
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%d", i)
	}
	b.ReportAllocs()
	for i := range b.N {
		s.Add(names[i*i%500], 100)
	}
}
