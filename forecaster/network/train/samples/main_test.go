package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// TestInputs: inputs for training are those that the forecaster has at the same minutes of the same series.
func TestInputs(t *testing.T) {
	const offset = 700
	y, r := make([]float64, 3000), rand.New(rand.NewPCG(1, 2))
	for i := range y {
		y[i] = (5 + math.Sin(float64(i)/200)) * r.ExpFloat64()
		if i%500 > 470 {
			y[i] = math.NaN()
		}
	}
	origins := []int32{3, 60, 1441, 2999}
	var in, out bytes.Buffer
	for range 2 { // the second series has no history of the first
		for _, part := range []any{[]int32{int32(len(y)), int32(len(origins)), offset}, y, origins} {
			if err := binary.Write(&in, binary.LittleEndian, part); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := run(&in, &out); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f := forecaster.New(forecaster.Config{})
		from := 0
		for _, o := range origins {
			start := time.Unix(60*(midnight+offset), 0)
			at := start.Add(time.Duration(o) * time.Minute)
			if err := f.Backfill("pool", features.DimDecode, start.Add(time.Duration(from)*time.Minute), y[from:o]); err != nil {
				t.Fatal(err)
			}
			from = int(o)
			x := f.Forecast(at)[0].Of(features.DimDecode).Basis.Input
			want := append(x.X[:], float32(x.Level), float32(x.Spread))
			got := make([]float32, len(want))
			if err := binary.Read(&out, binary.LittleEndian, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after %d minutes (-forecaster +samples):\n%s", o, diff)
			}
		}
	}
	if out.Len() != 0 {
		t.Errorf("%d bytes too many", out.Len())
	}
}

// TestInputsOfWrongOrigins: origins that are not ascending, or outside the series, would leave out those after them.
func TestInputsOfWrongOrigins(t *testing.T) {
	for _, origins := range [][]int32{{2, 2, 3}, {0, 1}, {3, 11}} {
		var in, out bytes.Buffer
		for _, part := range []any{[]int32{10, int32(len(origins)), 0}, make([]float64, 10), origins} {
			if err := binary.Write(&in, binary.LittleEndian, part); err != nil {
				t.Fatal(err)
			}
		}
		if err := run(&in, &out); err == nil {
			t.Errorf("origins %d are accepted", origins)
		}
	}
}
