package draw

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/internal/value"
)

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      []float64
	}{
		{0, 1, []float64{0, .2, .4, .6, .8, 1}}, {0, 9, []float64{0, 2, 4, 6, 8}}, {95, 120, []float64{95, 100, 105, 110, 115, 120}},
		{1, 1, nil}, {0, math.Inf(1), nil}, {0, math.NaN(), nil},
	} {
		got := Ticks(c.low, c.high, 5)
		if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
			t.Errorf("%g to %g: %s", c.low, c.high, diff)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		low, span := rapid.Float64Range(-1e9, 1e9).Draw(t, "low"), rapid.Float64Range(1e-3, 1e12).Draw(t, "span")
		most := rapid.IntRange(5, 10).Draw(t, "most")
		at := Ticks(low, low+span, most)
		if n := len(at); n < 2 || n > most+1 || at[0] < low-1e-9*span || at[n-1] > low+span+1e-9*span {
			t.Fatalf("%v", at)
		}
	})
}

// TestChartIsWellFormed draws texts with HTML, and NaN and infinite values. The result is valid XML without these
// values.
func TestChartIsWellFormed(t *testing.T) {
	nan, hostile := math.NaN(), `"><script>alert(1)</script>&`
	c := New(400, 200, hostile, hostile, 0, 0, 5, 5)
	c.YAxis(hostile, value.Short)
	c.Days(time.Date(2026, 3, 2, 0, 30, 0, 0, time.UTC))
	xs := []float64{0, 1, 2, 3}
	c.Line("a", xs, []float64{1, nan, math.Inf(1), 2})
	c.Steps("a", xs, []float64{nan, 1, 2, nan}, 4)
	c.Band("a", xs, []float64{1, nan, 1, 1}, []float64{2, 2, 2, nan})
	c.Span("a", -5, 99, hostile)
	c.Dot("a", nan, 1, hostile)
	out := c.String()
	d := xml.NewDecoder(strings.NewReader(out))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "script" {
			t.Error("the text became an element")
		}
	}
	if strings.Contains(out, "NaN") || strings.Contains(out, "Inf") {
		t.Errorf("NaN or Inf in %s", out)
	}
}

// TestLineHasGaps: a line has a gap at an unknown value.
func TestLineHasGaps(t *testing.T) {
	c := New(100, 100, "t", "d", 0, 3, 0, 1)
	c.Left, c.Right, c.Top, c.Base = 0, 10, 0, 0
	c.Line("l", []float64{0, 1, 2, 3}, []float64{0, 1, math.NaN(), 0})
	if want := `d="M0.0 100.0L30.0 0.0M90.0 100.0"`; !strings.Contains(c.String(), want) {
		t.Errorf("%s has no %s", c.String(), want)
	}
}
