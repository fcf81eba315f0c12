package forecaster

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/forecaster/network"
	"github.com/forewarm/forewarm/internal/value"
)

// Basis is what a forecast was made from: Input and Events for [Explain], Covered for metrics, others for projections.
type Basis struct {
	Input   *network.Input // nil if the network had no input. Read-only
	Covered Covered        // of the window maximum
	Events  []EventEffect  // with an effect within the horizon or just before
	Recent  shapeSums      // load of the last ten minutes
	Stage   int            // of silence, 0 in traffic: see stageMinutes
}

// Covered counts outcomes at or below each published quantile, one in originEvery minutes, with a memory of a week.
type Covered struct {
	N     float32
	Below [NumLevels]float32
}

func (c *Covered) add(y float64, published *Quantiles) {
	c.N = min(c.N+1, 7*OriginsPerDay)
	for i := range published {
		hit := float32(0)
		if y <= published[i] {
			hit = 1
		}
		c.Below[i] += (hit - c.Below[i]) / c.N
	}
}

// EventEffect is the effect of one event on a forecast.
type EventEffect struct {
	Name   string  `json:"name"`
	Factor float64 `json:"factor"`         // demand with the event over demand without it
	Low    float64 `json:"low_factor"`     // the factor is between low_factor and high_factor with a probability of 90 %
	High   float64 `json:"high_factor"`    // see low_factor
	Now    float64 `json:"strength_now"`   // 0 to 1, at the origin
	Ahead  float64 `json:"strength_ahead"` // 0 to 1, at the forecast minute
}

// Explanation lists what a forecast was made from. Values are in the dimension's unit, LeadMinutes ahead; unknown ones
// are null. Bounded by the number of input groups and events.
type Explanation struct {
	Pool        string        `json:"pool"`
	Class       string        `json:"class"`
	Dimension   string        `json:"dimension"`
	Origin      time.Time     `json:"origin"`
	LeadMinutes int           `json:"lead_minutes"`
	Confidence  Confidence    `json:"confidence"`
	Known       int           `json:"known_minutes"`
	Fallback    bool          `json:"fallback"` // see Forecast
	Now         value.Number  `json:"now"`
	Inputs      []InputView   `json:"inputs"` // what moved the median, the largest first
	Events      []EventEffect `json:"events"`
}

// InputView is a group of the network's inputs, and by how much the median falls if they are at their means (occlusion:
// Zeiler and Fergus 2014, doi:10.1007/978-3-319-10590-1_53).
type InputView struct {
	Input string       `json:"input"`
	Moved value.Number `json:"moved"`
}

// Explain returns what a forecast was made from.
func Explain(f *Forecast) Explanation {
	return Explanation{
		Pool: f.Pool, Class: f.Class, Dimension: f.Dimension, Origin: f.Origin.UTC(), LeadMinutes: targets[midLead].To,
		Confidence: f.Confidence, Known: f.Known, Fallback: f.Fallback, Now: value.Number(f.Now.Mean),
		Inputs: occlusions(&f.Basis), Events: append([]EventEffect{}, f.Basis.Events...),
	}
}

// occlusions are the groups of inputs, those that moved the network's median most first.
func occlusions(b *Basis) []InputView {
	all := []InputView{}
	if b.Input == nil {
		return all
	}
	median := func(n *network.Net) float64 {
		var q network.Quantiles
		n.Forecast(b.Input, &q)
		return unroot(float64(q[midLead][L50]))
	}
	with := median(network.Fitted())
	for _, g := range network.Groups {
		all = append(all, InputView{g.Name, value.Number(with - median(network.Fitted().Without(g)))})
	}
	slices.SortStableFunc(all, func(a, b InputView) int { return cmp.Compare(math.Abs(float64(b.Moved)), math.Abs(float64(a.Moved))) })
	return all
}
