package capacity

import (
	"os"
	"strings"
	"testing"
	"time"
)

func curve(t testing.TB, name string) Curve {
	t.Helper()
	data, err := os.ReadFile("testdata/curves/" + name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCurve(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// TestParseCurve: the same four measurements, in the format of each tool.
func TestParseCurve(t *testing.T) {
	want := Point{
		Concurrency: 16, Prompt: 512, Output: 128, PrefillTokensPerS: 3072, DecodeTokensPerS: 768,
		TTFT: Percentiles{.09, .13, .22}, ITL: Percentiles{.02, .022, .027},
	}
	for file, requestsPerS := range map[string]float64{"vllm.jsonl": 6, "plain.csv": 0} {
		c := curve(t, file)
		if len(c) != 4 {
			t.Errorf("%s: %d measurements", file, len(c))
			continue
		}
		want.RequestsPerS = requestsPerS
		got := c[1]
		for _, pair := range [][2]float64{
			{got.Concurrency, want.Concurrency}, {got.RequestsPerS, want.RequestsPerS}, {got.Prompt, want.Prompt}, {got.Output, want.Output},
			{got.PrefillTokensPerS, want.PrefillTokensPerS}, {got.DecodeTokensPerS, want.DecodeTokensPerS},
			{got.TTFT.P50, want.TTFT.P50}, {got.TTFT.P90, want.TTFT.P90}, {got.ITL.P90, want.ITL.P90}, {got.ITL.P99, want.ITL.P99},
		} {
			if !near(pair[0], pair[1], 1e-9) {
				t.Errorf("%s: %+v, want %+v", file, got, want)
				break
			}
		}
	}
}

func TestParseCurveRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "0 measurements",
		"{}":                                     "0 measurements",
		`{"benchmarks":[]}`:                      "0 measurements",
		"[{}, 1]":                                "result 1",
		"concurrency,speed\n1,2":                 `column "speed"`,
		"concurrency,prompt\n1,x":                `row 1: prompt is "x"`,
		"concurrency,decode_tokens_per_s\n":      "0 measurements",
		"concurrency,decode_tokens_per_s\n,5":    "neither concurrency",
		"concurrency,decode_tokens_per_s\n1,":    "no throughput",
		"concurrency,decode_tokens_per_s\n1,-4":  "decode_tokens_per_s is -4",
		"concurrency,decode_tokens_per_s\n1,NaN": "decode_tokens_per_s is NaN",
		`{"request_throughput":1,"output_throughput":1}`:            "0 measurements",
		"concurrency,prompt,decode_tokens_per_s\n1,100,5\n1,1000,5": "requests have 100 to 1000 tokens",
	} {
		if _, err := ParseCurve([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: error %v, want one with %q", text, err, want)
		}
	}
}

func FuzzParseCurve(f *testing.F) {
	for _, name := range []string{"vllm.jsonl", "plain.csv"} {
		data, err := os.ReadFile("testdata/curves/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCurve(data)
		if err != nil {
			return
		}
		prefill, decode, err := c.Goodput(SLO{TTFT: time.Second, ITL: 40 * time.Millisecond})
		if err == nil && !(prefill >= 0 && prefill <= maxRate && decode >= 0 && decode <= maxRate) {
			t.Error(prefill, decode)
		}
	})
}

// TestGoodput compares the knee with a computation by hand. ITL p90 exceeds 50 ms a third of the way from 40 ms (1920
// tokens/s) to 70 ms (2304). TTFT p90 exceeds 1.2 s at 0.3/3.1 of the way from 0.9 s (7680) to 4 s (9216).
func TestGoodput(t *testing.T) {
	c := curve(t, "vllm.jsonl")
	slo := SLO{TTFT: 1200 * time.Millisecond, ITL: 50 * time.Millisecond}
	prefill, decode, err := c.Goodput(slo)
	if err != nil || !near(decode, 1920+384./3, 1e-9) || !near(prefill, 7680+1536*.3/3.1, 1e-9) {
		t.Error(prefill, decode, err)
	}
	if _, most, err := c.Goodput(SLO{ITL: time.Second, TTFT: time.Minute}); err != nil || most != 2304 {
		t.Errorf("an objective that always holds: %g, %v", most, err)
	}
	if _, _, err := c.Goodput(SLO{ITL: 10 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "ITL is 0.0125 s and the objective 0.01 s") {
		t.Errorf("an objective that never holds: %v", err)
	}
}
