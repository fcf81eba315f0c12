package capacity

import "math"

// ServiceMinute is what a pool's ready replicas did in one minute, each on average; NaN is unknown.
type ServiceMinute struct {
	Decoding float64 // sequences that generate, by Little's law: output tokens/s · ITL
	KV       float64 // tokens held
	ITL      float64 // mean seconds from one output token to the next
	Context  float64 // tokens that a sequence holds while it generates; less than KV/Decoding, for prompts hold some, too

	Prompts  PrefillSums // of all replicas together
	Prefill  float64     // prompt tokens prefilled a second
	Replicas float64     // that were ready
}

// Service is what is learned of one replica from telemetry. The zero value has learned nothing. It is a value: copies are
// independent. Observe and read cost a constant.
//
// The time of an iteration is taken as linear in what it does (each reads the weights once, computes each sequence, and
// reads its cache), ITL(b, kv) = a₀ + a₁·b + a₂·kv with a₁, a₂ ≥ 0: least squares whose weights halve in about a day,
// and in which a minute counts with Huber's weight min(1, k·s/|residual|), so that its influence is bounded (Huber 1964,
// doi:10.1214/aoms/1177703732). The normal equations are kept, not their solution: nothing is lost to rounding, and where
// b and kv only ever moved together the sum of their effects is still right for such loads.
//
// The prefill rate follows from how much longer long prompts take than short ones of the same minute: what is common to them,
// such as an overhead of the network or a queue, does not enter. See prefill.go.
type Service struct {
	state ServiceState
}

// ServiceState is a Service at rest.
type ServiceState struct {
	// Normal is Σw, Σw·b, Σw·kv, Σw·b², Σw·b·kv, Σw·kv², Σw·itl, Σw·b·itl, Σw·kv·itl; b in units of unitDecoding, kv of
	// unitKV.
	Normal [9]float64 `cbor:"1,keyasint"`
	Scale  float64    `cbor:"2,keyasint"` // mean absolute residual of the ITL, s
	Most   float64    `cbor:"3,keyasint"` // the most sequences seen at once, fading
	Seen   float64    `cbor:"4,keyasint"` // minutes, fading
	Held   float64    `cbor:"7,keyasint"` // Σw·b·context

	Prompts  float64                 `cbor:"5,keyasint"`  // minutes that taught of prefill, fading
	Residual float64                 `cbor:"10,keyasint"` // mean absolute deviation of a minute's slope, by the root of its Sxx
	Loads    [prefillBins]prefillBin `cbor:"11,keyasint"`

	Contradicted [len(contradictable)]int64 `cbor:"12,keyasint"` // since when, Unix seconds; 0 where a rate is not
}

// Constants of learning. Units keep the normal equations well scaled.
const (
	unitDecoding = 64
	unitKV       = 1e5

	fade        = 0.9995 // of what earlier minutes weigh, a minute with traffic: half in 23 hours
	huber       = 1.345  // standard deviations; 95 % as efficient as least squares on normal errors
	perMean     = 1.2533 // standard deviations of a normal variable in its mean absolute deviation
	scaleFade   = 0.02   // of the scale, a minute
	enough      = 60     // minutes before anything is said
	visited     = 1.2    // the knee may lie so far beyond the loads seen before it counts as extrapolated
	minRequests = 3      // of a minute, to learn prefill from
)

// State returns what was learned, for a snapshot.
func (s *Service) State() ServiceState { return s.state }

// Restore takes a snapshot back.
func (s *Service) Restore(state ServiceState) { s.state = state }

// Observe takes in a minute; what of it is unknown teaches nothing.
func (s *Service) Observe(m ServiceMinute) {
	s.observeDecode(m)
	s.observePrefill(m)
}

func (s *Service) observeDecode(m ServiceMinute) {
	st := &s.state
	if !(m.Decoding > 0 && m.KV > 0 && m.ITL > 0) || math.IsInf(m.Decoding+m.KV+m.ITL, 0) {
		return
	}
	b, kv := m.Decoding/unitDecoding, m.KV/unitKV
	weight := 1.0
	if st.Seen >= 3 {
		residual := math.Abs(m.ITL - s.law().at(b, kv))
		if bound := huber * perMean * st.Scale; residual > bound && bound > 0 {
			weight = bound / residual
		}
		// The scale moves by a bounded step, too: an outlier must not make itself look usual.
		st.Scale += scaleFade * (min(residual, 5*max(st.Scale, 1e-3*m.ITL)) - st.Scale)
	} else {
		st.Scale = 0.05 * m.ITL
	}
	for i, x := range [...]float64{1, b, kv, b * b, b * kv, kv * kv, m.ITL, b * m.ITL, kv * m.ITL} {
		st.Normal[i] = fade*st.Normal[i] + weight*x
	}
	context := m.KV / m.Decoding
	if m.Context > 0 && m.Context < context {
		context = m.Context
	}
	st.Held = fade*st.Held + weight*b*context
	st.Most = max(fade*st.Most, m.Decoding)
	st.Seen = fade*st.Seen + 1
}

// erlangWait is the mean wait in M/M/c over the mean service: C(c, cρ) / (c·(1 − ρ)), +Inf from ρ = 1. C by the recursion of
// Erlang's B, B(k) = a·B(k−1) / (k + a·B(k−1)), which cannot overflow. O(c), for at most erlangMost of them.
func erlangWait(c int, rho float64) float64 {
	if rho >= 1 {
		return math.Inf(1)
	}
	c = min(c, erlangMost)
	a, b := float64(c)*rho, 1.0
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b / (1 - rho*(1-b)) / (float64(c) * (1 - rho))
}

// erlangMost is from how many servers on the wait is as good as none at any load below 90 %.
const erlangMost = 200

// law is ITL(b, kv) in scaled units.
type law struct{ a0, a1, a2 float64 }

func (l law) at(b, kv float64) float64 { return l.a0 + l.a1*b + l.a2*kv }

// law is the least-squares solution with slopes that are not negative: of the four that leave out one slope, both or none,
// the best that is allowed. A ridge far below the data keeps collinear loads solvable.
func (s *Service) law() law {
	n := &s.state.Normal
	best, bestLoss := law{}, math.Inf(1)
	for _, use := range [...][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
		a := [3][4]float64{{n[0], n[1], n[2], n[6]}, {n[1], n[3], n[4], n[7]}, {n[2], n[4], n[5], n[8]}}
		for i, used := range use {
			ridge := 1e-6 * (a[i+1][i+1] + 1e-12)
			if !used {
				a[i+1] = [4]float64{}
				a[0][i+1], a[1][i+1], a[2][i+1] = 0, 0, 0
				ridge = 1
			}
			a[i+1][i+1] += ridge
		}
		x, ok := solve(a)
		if !ok || x[1] < 0 || x[2] < 0 || x[0] < 0 {
			continue
		}
		// Σw(itl − a·x)² less Σw·itl², which is the same for all.
		loss := x[0]*x[0]*n[0] + x[1]*x[1]*n[3] + x[2]*x[2]*n[5] + 2*(x[0]*x[1]*n[1]+x[0]*x[2]*n[2]+x[1]*x[2]*n[4]) - 2*(x[0]*n[6]+x[1]*n[7]+x[2]*n[8])
		if loss < bestLoss {
			best, bestLoss = law{x[0], x[1], x[2]}, loss
		}
	}
	return best
}

// solve is Gaussian elimination with partial pivoting of three equations.
func solve(a [3][4]float64) (x [3]float64, ok bool) {
	for col := range 3 {
		pivot := col
		for row := col + 1; row < 3; row++ {
			if math.Abs(a[row][col]) > math.Abs(a[pivot][col]) {
				pivot = row
			}
		}
		if a[pivot][col] == 0 {
			return x, false
		}
		a[col], a[pivot] = a[pivot], a[col]
		for row := col + 1; row < 3; row++ {
			f := a[row][col] / a[col][col]
			for k := col; k < 4; k++ {
				a[row][k] -= f * a[col][k]
			}
		}
	}
	for row := 2; row >= 0; row-- {
		x[row] = a[row][3]
		for k := row + 1; k < 3; k++ {
			x[row] -= a[row][k] * x[k]
		}
		x[row] /= a[row][row]
	}
	return x, !math.IsNaN(x[0] + x[1] + x[2])
}

// Estimate is a learned rate with the bounds between which it is with a probability of about 90 %.
type Estimate struct {
	Value, Low, High float64
	// Extrapolated: the knee lies beyond the loads that were seen. Value and High then take the time of an iteration to grow as before,
	// and Low is no more than what a replica generates at the most sequences that were seen.
	Extrapolated bool
}

// Decode is the decode goodput of a replica in tokens/s: b/ITL(b, b·context) for the largest b within slots, the safe KV
// tokens and the objective, context being the tokens that a sequence held on average. ok is false before an hour of
// traffic, or when no load meets the objective.
func (s *Service) Decode(slots int, kvTokens, objective float64) (e Estimate, ok bool) {
	st := &s.state
	if st.Seen < enough || !(objective > 0) || !(st.Normal[1] > 0) {
		return e, false
	}
	l := s.law()
	context := st.Held / st.Normal[1]
	knee := func(objective float64) float64 {
		b := math.Inf(1)
		if slots > 0 {
			b = float64(slots)
		}
		if kvTokens > 0 && context > 0 {
			b = min(b, kvTokens/context)
		}
		if slope := l.a1/unitDecoding + l.a2*context/unitKV; slope > 0 {
			b = min(b, (objective-l.a0)/slope)
		} else if objective < l.a0 {
			b = 0
		}
		return b
	}
	rate := func(b, shift float64) float64 { return b / (l.at(b/unitDecoding, b*context/unitKV) + shift) }
	b := knee(objective)
	if !(b >= 1) || math.IsInf(b, 1) {
		return e, false
	}
	margin := 1.645 * s.deviation(b/unitDecoding, b*context/unitKV)
	e.Value, e.Extrapolated = rate(b, 0), b > visited*st.Most
	e.Low, e.High = rate(max(knee(objective-margin), 1), margin), rate(knee(objective+margin), -min(margin, 0.9*l.at(b/unitDecoding, b*context/unitKV)))
	if e.Extrapolated {
		e.Low = min(e.Low, rate(st.Most, 0))
	}
	return e, true
}

// deviation is the standard error of the fitted ITL at a load in scaled units, x = (1, b, kv): σ·√(x'·N⁻¹·x) with N the normal
// equations, of a tenth of the minutes, for neighbouring minutes err alike; never less than 1.5 % of the mean ITL.
func (s *Service) deviation(b, kv float64) float64 {
	n := &s.state.Normal
	y, _ := solve([3][4]float64{{n[0], n[1], n[2], 1}, {n[1], n[3] + 1e-6*n[3], n[4], b}, {n[2], n[4], n[5] + 1e-6*n[5], kv}})
	return max(perMean*s.state.Scale*math.Sqrt(max(10*(y[0]+b*y[1]+kv*y[2]), 0)), 0.015*n[6]/n[0])
}

// Prefill is the rate at which a replica computes prompts when it does nothing else, in tokens/s. ok is false before an hour of
// traffic, and where lengths and loads do not tell the rate within 10 %.
func (s *Service) Prefill() (e Estimate, ok bool) {
	if s.state.Prompts < enough {
		return e, false
	}
	return s.prefillRate()
}
