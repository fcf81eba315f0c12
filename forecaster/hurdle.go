package forecaster

const (
	// silentMinutes without traffic make a series silent.
	silentMinutes = 15
	// hurdleMemory is how many silent origins are remembered: two days of them.
	hurdleMemory = 2880
	// hurdleEvidence is how many it takes to believe them.
	hurdleEvidence = 60
)

// hurdle is the first half of a hurdle model (Mullahy 1986, doi:10.1016/0304-4076(86)90002-3) for classes whose minutes
// are mostly zero: how often a series that is silent is silent at the target, too. Quantiles below that share are exactly
// zero; smoothing and error quantiles alone would leave them a little above it for days.
type hurdle struct {
	Silent, Woke float64 // origins in silence, and those of them whose outcome was not zero
}

// learn counts an origin that stands for so many minutes of silence.
func (h *hurdle) learn(woke bool, minutes float64) {
	keep := 1 - minutes/hurdleMemory
	h.Silent = h.Silent*keep + minutes
	h.Woke *= keep
	if woke {
		h.Woke += minutes
	}
}

// clear sets the quantiles that lie in the mass at zero.
func (h *hurdle) clear(q *Quantiles) {
	if h.Silent < hurdleEvidence {
		return
	}
	for i, tau := range Levels {
		if tau <= 1-h.Woke/h.Silent {
			q[i] = 0
		}
	}
}
