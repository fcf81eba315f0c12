package value

import (
	"encoding/json"
	"math"
	"testing"
)

func TestNumberInJSON(t *testing.T) {
	got, err := json.Marshal([]Number{1.5, Unknown, Number(math.Inf(1))})
	if err != nil || string(got) != "[1.5,null,null]" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 3.214: "3.21", 999.4: "999", 999.6: "1k", 12345: "12.3k", -1.5e6: "-1.5M", 2e9: "2G", 5e15: "5e+03T", math.Inf(1): "–",
	} {
		if got := Short(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
	if got := Short(math.NaN()); got != "–" {
		t.Errorf("NaN is %s", got)
	}
}

func TestCount(t *testing.T) {
	if a, b := Count(1, "pool"), Count(0, "pool"); a != "1 pool" || b != "0 pools" {
		t.Errorf("%s, %s", a, b)
	}
}
