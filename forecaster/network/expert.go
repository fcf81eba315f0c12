package network

import (
	"math"

	"github.com/forewarm/forewarm/forecaster/model"
)

// Expert makes a network one of the experts of a series: a model.Expert and a model.Distributor. It keeps the forecast of
// all targets until the history changes.
type Expert struct {
	weights *Net
	at      uint64 // revision of the history that the forecast is from
	set, ok bool
	q       Quantiles
}

// New returns an expert that forecasts by n.
func New(n *Net) *Expert { return &Expert{weights: n} }

// Update keeps nothing.
func (*Expert) Update(*model.History) {}

// State is nil: a forecast is made of the history alone.
func (*Expert) State() []float64 { return nil }

// Restore takes over a State.
func (*Expert) Restore(s []float64) bool { return len(s) == 0 }

// Forecast is the median at the nearest target, NaN while there is nothing to go by.
func (x *Expert) Forecast(h *model.History, lead int) float64 {
	var q [NumLevels]float64
	if !x.Distribution(h, lead, lead, &q) {
		return math.NaN()
	}
	return q[Middle]
}

// Distribution sets q to the forecast of the target that is nearest to the span of leads.
func (x *Expert) Distribution(h *model.History, from, to int, q *[NumLevels]float64) bool {
	if !x.set || x.at != h.Revision() {
		var in Input
		x.set, x.at = true, h.Revision()
		if in, x.ok = Look(h); x.ok {
			x.weights.Forecast(&in, &x.q)
		}
	}
	if !x.ok {
		return false
	}
	for i, z := range x.q[nearest(from, to)] {
		z := math.Max(0, float64(z))
		q[i] = z * z
	}
	return true
}

func nearest(from, to int) int {
	best, least := 0, math.MaxInt
	for k, s := range Spans {
		if d := max(from-s[0], s[0]-from) + max(to-s[1], s[1]-to); d < least {
			best, least = k, d
		}
	}
	return best
}

var (
	_ model.Expert      = (*Expert)(nil)
	_ model.Distributor = (*Expert)(nil)
)
