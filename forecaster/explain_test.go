package forecaster

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/network"
)

// An explanation has the groups of inputs, largest effect first, and the events of its forecast.
func TestExplain(t *testing.T) {
	f := New(launch(t, 2000, ""))
	r := rand.New(rand.NewPCG(21, 4))
	for i := range 1980 {
		w := window("p", "a", i, 10*math.Exp(.2*r.NormFloat64()))
		f.Observe([]features.Window{w}, []features.PoolMinute{{Pool: "p", Start: minuteAt(i), Covered: true, LastEvent: minuteAt(i)}})
	}
	pf := f.Forecast(minuteAt(1980))[0]
	for _, fc := range []*Forecast{&pf.Classes[0], pf.Of(features.DimRequests)} {
		x := Explain(fc)
		if x.Class != fc.Class || x.Dimension != features.DimRequests || x.Known != fc.Known {
			t.Errorf("%s: explanation %+v", fc.Class, x)
		}
		for i, in := range x.Inputs {
			if !in.Moved.Known() || i > 0 && math.Abs(float64(in.Moved)) > math.Abs(float64(x.Inputs[i-1].Moved)) {
				t.Errorf("%s: inputs %+v", fc.Class, x.Inputs)
			}
		}
		if len(x.Inputs) != len(network.Groups) {
			t.Errorf("%s: inputs %+v", fc.Class, x.Inputs)
		}
		if len(x.Events) != 1 || x.Events[0].Now != 0 || math.Abs(x.Events[0].Factor-3) > 1e-9 || !(x.Events[0].Low < 3) {
			t.Errorf("%s: events %+v", fc.Class, x.Events)
		}
	}
}

// A forecast from a few minutes, and an empty one, can be written as JSON: unknown values are null.
func TestExplainUnknown(t *testing.T) {
	f := New(Config{})
	pf := observePool(f, 4, map[string]func(int) float64{"a": func(int) float64 { return 1 }}, "a")
	data, err := json.Marshal(Explain(&pf.Classes[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"confidence":"cold"`, `"events":[]`, `"known_minutes":4`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s does not have %s", data, want)
		}
	}
	if _, err := json.Marshal(Explain(&Forecast{Now: features.Estimate{Mean: math.NaN()}})); err != nil {
		t.Errorf("an empty forecast: %v", err)
	}
}
