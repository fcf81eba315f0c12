package sketch

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// values draws sizes and delays over the whole range, with zeros and repeats.
func values(t *rapid.T) []float64 {
	one := rapid.OneOf(
		rapid.Float64Range(0, 1),
		rapid.Float64Range(0, MaxValue),
		rapid.Map(rapid.IntRange(0, 4000), func(n int) float64 { return float64(n) }),
		rapid.Map(rapid.Float64Range(math.Log(MinValue), math.Log(MaxValue)), math.Exp),
	)
	return rapid.SliceOfN(one, 1, 200).Draw(t, "values")
}

func filled(v []float64) *Quantile {
	s := new(Quantile)
	for _, x := range v {
		s.Add(x)
	}
	return s
}

func TestQuantileAccuracy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(t)
		s := filled(v)
		slices.Sort(v)
		for _, q := range []float64{0, .01, .25, .5, .9, .99, 1} {
			want := v[int(q*float64(len(v)-1))]
			if got := s.Quantile(q); math.Abs(got-want) > RelativeAccuracy*want*(1+1e-9)+MinValue {
				t.Fatalf("quantile %v of %d values: got %v, want %v", q, len(v), got, want)
			}
		}
	})
}

func TestQuantileMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(t)
		cut := rapid.IntRange(0, len(v)).Draw(t, "cut")
		whole, merged, part := filled(v), filled(v[:cut]), filled(v[cut:])
		merged.Merge(part)
		sameBins(t, whole, merged)
		if part.Count() != float64(len(v)-cut) {
			t.Fatal("merging changed its argument")
		}
	})
}

// sameBins checks that two sketches have the same counts, and the same sum up to rounding.
func sameBins(t *rapid.T, a, b *Quantile) {
	t.Helper()
	if math.Abs(a.Total-b.Total) > 1e-9*a.Total {
		t.Fatalf("sums %v and %v", a.Total, b.Total)
	}
	bins := func(s *Quantile) map[int]uint32 {
		counts := map[int]uint32{}
		for _, bin := range s.List {
			counts[int(bin)]++
		}
		for i, n := range s.Dense {
			if n > 0 {
				counts[int(s.Low)+i] = n
			}
		}
		return counts
	}
	if a.Count() != b.Count() || !maps.Equal(bins(a), bins(b)) {
		t.Fatal("the bins differ")
	}
}

func TestQuantileOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(t)
		shuffled := rapid.Permutation(v).Draw(t, "shuffled")
		sameBins(t, filled(v), filled(shuffled))
	})
}

// With many values a sketch changes from a list to counts. Its quantiles stay accurate.
func TestQuantileOfMany(t *testing.T) {
	s, v := new(Quantile), []float64(nil)
	for i := range 20_000 {
		x := math.Exp(float64(i*7919%20_000)/20_000*12) - 1
		s.Add(x)
		v = append(v, x)
		if i%997 != 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(v))
		for q := 0.0; q <= 1; q += 1. / 32 {
			want := sorted[int(q*float64(len(v)-1))]
			if got := s.Quantile(q); math.Abs(got-want) > RelativeAccuracy*want*(1+1e-9)+MinValue {
				t.Fatalf("quantile %v of %d values: got %v, want %v", q, len(v), got, want)
			}
		}
	}
	if len(s.Dense) == 0 || len(s.List) > 0 || len(s.Dense) > 4096 {
		t.Errorf("%d values are in a list of %d and %d counts", len(v), len(s.List), len(s.Dense))
	}
}

func TestQuantileRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := filled(values(t))
		data, err := cbor.Marshal(s)
		var back Quantile
		if err != nil || cbor.Unmarshal(data, &back) != nil {
			t.Fatal("the sketch cannot be stored and restored")
		}
		s.Add(7)
		back.Add(7)
		if diff := cmp.Diff(s, &back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("a restored sketch differs (-original +restored):\n%s", diff)
		}
	})
}

func TestQuantileEmpty(t *testing.T) {
	ignored := filled([]float64{math.NaN(), -1, math.Inf(-1)})
	for name, s := range map[string]*Quantile{"zero": {}, "nothing valid": ignored} {
		if s.Count() != 0 || s.Total != 0 || !math.IsNaN(s.Quantile(.5)) || !math.IsNaN(s.Mean()) {
			t.Errorf("%s: not empty", name)
		}
		whole := filled([]float64{3})
		whole.Merge(s)
		if whole.Count() != 1 {
			t.Errorf("%s: merging it changed the count", name)
		}
	}
	if got := filled([]float64{1, 2}).Quantile(1.5); !math.IsNaN(got) {
		t.Errorf("quantile 1.5 = %v, want NaN", got)
	}
}

func TestQuantileRange(t *testing.T) {
	s := new(Quantile)
	for range 3 {
		s.Add(MinValue / 2)
	}
	s.Add(math.Inf(1))
	if got := s.Quantile(.5); got != 0 {
		t.Errorf("a tiny value counts as %v, want 0", got)
	}
	if got := s.Quantile(1); math.Abs(got-MaxValue) > RelativeAccuracy*MaxValue*(1+1e-9) {
		t.Errorf("an infinite value counts as %v, want %v", got, MaxValue)
	}
}

func BenchmarkQuantileAdd(b *testing.B) {
	s := new(Quantile)
	b.ReportAllocs()
	for i := range b.N {
		s.Add(float64(i%4000 + 1))
	}
}
