package forecaster

// shared is what the light series of a pool and dimension know together: the quantiles of the normal scores that their
// forecasts gave to outcomes. What is rare in one series is seen in time among thousands.
type shared struct {
	Scores [numKnots][numStates]Quantiles `cbor:"1,keyasint"`
	Seen   [numKnots][numStates]float64   `cbor:"2,keyasint"` // minutes with outcomes

	below [numKnots][numStates][NumLevels]int // outcomes of this minute below each quantile
	n     [numKnots][numStates]int
}

const (
	sharedGain  = 1.0 / 1000 // memory of shared scores, in minutes
	sharedPrior = 300        // minutes' worth of belief that the network is calibrated
)

func newShared() *shared {
	s := &shared{}
	for j := range s.Scores {
		s.Scores[j] = [numStates]Quantiles{gaussian, gaussian}
	}
	return s
}

// count takes note of a score.
func (s *shared) count(j, state int, score float64) {
	for i, q := range s.Scores[j][state] {
		if score < q {
			s.below[j][state][i]++
		}
	}
	s.n[j][state]++
}

// settle ends a minute: the quantiles move by how many of its outcomes fell below them. Outcomes of a minute have much in
// common, so that however many they are they count as one.
func (s *shared) settle() {
	for j := range s.n {
		for state, n := range s.n[j] {
			if n == 0 {
				continue
			}
			seen, q := &s.Seen[j][state], &s.Scores[j][state]
			step := steps(q, max(sharedGain, 1/(*seen+sharedPrior)), maxSparsity)
			for i, tau := range Levels {
				q[i] += step[i] * (tau - float64(s.below[j][state][i])/float64(n))
			}
			ascend(q)
			*seen++
		}
	}
	s.n, s.below = [numKnots][numStates]int{}, [numKnots][numStates][NumLevels]int{}
}
