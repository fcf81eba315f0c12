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
		most float64
		want []float64
	}{
		{1, []float64{0, .2, .4, .6, .8, 1}}, {9, []float64{0, 2, 4, 6, 8}}, {25, []float64{0, 5, 10, 15, 20, 25}}, {math.Inf(1), nil},
	} {
		got := ticks(c.most)
		if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
			t.Errorf("to %g: %s", c.most, diff)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Float64Range(1e-3, 1e12).Draw(t, "most")
		at := ticks(most)
		if n := len(at); n < 3 || n > 6 || at[0] != 0 || at[n-1] > most*(1+1e-9) {
			t.Fatalf("%v", at)
		}
	})
}

// TestChartIsWellFormed draws texts with HTML, and NaN and infinite values. The result is valid XML without these
// values.
func TestChartIsWellFormed(t *testing.T) {
	nan, hostile := math.NaN(), `"><script>alert(1)</script>&`
	c := New(400, 200, hostile, hostile, 0, 0)
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
	c := New(100, 100, "t", "d", 3, 1)
	c.Left, c.Right, c.Top, c.Base = 0, 10, 0, 0
	c.Line("l", []float64{0, 1, 2, 3}, []float64{0, 1, math.NaN(), 0})
	if want := `d="M0.0 100.0L30.0 0.0M90.0 100.0"`; !strings.Contains(c.String(), want) {
		t.Errorf("%s has no %s", c.String(), want)
	}
}
