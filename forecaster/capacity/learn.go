package capacity

import (
	"math"

	"github.com/forewarm/forewarm/features"
)

// ServiceMinute is the service of a pool's ready replicas in one minute, averaged per replica; NaN is unknown.
type ServiceMinute struct {
	Decoding float64 // sequences that generate, by Little's law: output tokens/s · ITL
	KV       float64 // tokens held
	ITL      float64 // mean seconds from one output token to the next
	Context  float64 // tokens that a generating sequence holds; less than KV/Decoding, because prompts hold tokens too

	Prompts  features.Prefills // of all replicas together
	Prefill  float64           // prompt tokens prefilled a second
	Replicas float64           // ready replicas
}

// Service learns the service rates of one replica from telemetry. The zero value has learned nothing. Copies are
// independent. Observing and reading cost O(1).
//
// The time of an iteration is modelled as linear: it reads the weights once, computes each sequence and reads its
// cache. ITL(b, kv) = a₀ + a₁·b + a₂·kv with a₁, a₂ ≥ 0. It is fitted by least squares. Weights halve in about a day.
// Huber's weight min(1, k·s/|residual|) bounds the influence of one minute (Huber 1964, doi:10.1214/aoms/1177703732).
// The normal equations are kept, not their solution. So if b and kv only changed together, the sum of their effects is
// still right for such loads.
//
// The prefill rate follows from the differences in time between long and short prompts of the same minute. Common
// delays, such as of the network or a queue, cancel out. See prefill.go.
type Service struct {
	// Normal is Σw, Σw·b, Σw·kv, Σw·b², Σw·b·kv, Σw·kv², Σw·itl, Σw·b·itl, Σw·kv·itl; b in units of unitDecoding, kv of
	// unitKV.
	Normal [9]float64 `cbor:"1,keyasint"`
	Scale  float64    `cbor:"2,keyasint"` // mean absolute residual of the ITL, s
	Most   float64    `cbor:"3,keyasint"` // largest number of sequences at once, fading
	Seen   float64    `cbor:"4,keyasint"` // minutes, fading
	Held   float64    `cbor:"7,keyasint"` // Σw·b·context

	PrefillMinutes float64                 `cbor:"5,keyasint"`  // minutes with data on prefill, fading
	Residual       float64                 `cbor:"10,keyasint"` // mean absolute deviation of a minute's slope times √Sxx
	Loads          [prefillBins]prefillBin `cbor:"11,keyasint"`

	Contradicted [len(contradictable)]int64 `cbor:"12,keyasint"` // start of the contradiction, Unix seconds; 0 without one
}

// Constants of learning. Units keep the normal equations well scaled.
const (
	unitDecoding = 64
	unitKV       = 1e5

	fade        = 0.9995 // decay of weights per minute with traffic: half in 23 hours
	huber       = 1.345  // standard deviations; 95 % as efficient as least squares on normal errors
	perMean     = 1.2533 // standard deviation over mean absolute deviation of a normal variable
	scaleFade   = 0.02   // gain of the scale per minute
	minMinutes  = 60     // minutes needed for an estimate
	visited     = 1.2    // a knee beyond the observed loads by a larger factor is extrapolated
	minRequests = 3      // requests of a minute needed to learn prefill
)

// Observe adds a minute; unknown values are ignored.
func (s *Service) Observe(m ServiceMinute) {
	s.observeDecode(m)
	s.observePrefill(m)
}

func (s *Service) observeDecode(m ServiceMinute) {
	if !(m.Decoding > 0 && m.KV > 0 && m.ITL > 0) || math.IsInf(m.Decoding+m.KV+m.ITL, 0) {
		return
	}
	b, kv := m.Decoding/unitDecoding, m.KV/unitKV
	weight := 1.0
	if s.Seen >= 3 {
		residual := math.Abs(m.ITL - s.fitITL().at(b, kv))
		if bound := huber * perMean * s.Scale; residual > bound && bound > 0 {
			weight = bound / residual
		}
		// The step of the scale is bounded too, so that an outlier does not look normal.
		s.Scale += scaleFade * (min(residual, 5*max(s.Scale, 1e-3*m.ITL)) - s.Scale)
	} else {
		s.Scale = 0.05 * m.ITL
	}
	for i, x := range [...]float64{1, b, kv, b * b, b * kv, kv * kv, m.ITL, b * m.ITL, kv * m.ITL} {
		s.Normal[i] = fade*s.Normal[i] + weight*x
	}
	context := m.KV / m.Decoding
	if m.Context > 0 && m.Context < context {
		context = m.Context
	}
	s.Held = fade*s.Held + weight*b*context
	s.Most = max(fade*s.Most, m.Decoding)
	s.Seen = fade*s.Seen + 1
}

// linearITL is ITL(b, kv) in scaled units.
type linearITL struct{ a0, a1, a2 float64 }

func (l linearITL) at(b, kv float64) float64 { return l.a0 + l.a1*b + l.a2*kv }

// fitITL is the least-squares solution with non-negative slopes: the best allowed one of the four without one slope, both
// or none. A very small ridge makes collinear loads solvable.
func (s *Service) fitITL() linearITL {
	n := &s.Normal
	best, bestLoss := linearITL{}, math.Inf(1)
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
		// Σw(itl − a·x)² − Σw·itl²; the second term is constant.
		loss := x[0]*x[0]*n[0] + x[1]*x[1]*n[3] + x[2]*x[2]*n[5]
		loss += 2 * (x[0]*x[1]*n[1] + x[0]*x[2]*n[2] + x[1]*x[2]*n[4])
		loss -= 2 * (x[0]*n[6] + x[1]*n[7] + x[2]*n[8])
		if loss < bestLoss {
			best, bestLoss = linearITL{x[0], x[1], x[2]}, loss
		}
	}
	return best
}

// solve solves three equations by Gaussian elimination with partial pivoting.
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

// Estimate is a learned rate with an interval of about 90 % probability.
type Estimate struct {
	Value, Low, High float64
	// Extrapolated reports that the knee is beyond the observed loads. Value and High then extrapolate the time of an
	// iteration. Low is at most the rate at the largest observed number of sequences.
	Extrapolated bool
}

// Decode is the decode goodput of a replica in tokens/s: b/ITL(b, b·context) for the largest b within slots, the safe
// KV tokens and the objective, where context is the mean number of tokens of a sequence. ok is false before an hour of
// traffic, or when no load meets the objective.
func (s *Service) Decode(slots int, kvTokens, objective float64) (e Estimate, ok bool) {
	if s.Seen < minMinutes || !(objective > 0) || !(s.Normal[1] > 0) {
		return e, false
	}
	l := s.fitITL()
	context := s.Held / s.Normal[1]
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
	itl := func(b float64) float64 { return l.at(b/unitDecoding, b*context/unitKV) }
	rate := func(b, shift float64) float64 { return b / (itl(b) + shift) }
	b := knee(objective)
	if !(b >= 1) || math.IsInf(b, 1) {
		return e, false
	}
	margin := 1.645 * s.deviation(b/unitDecoding, b*context/unitKV)
	e.Value, e.Extrapolated = rate(b, 0), b > visited*s.Most
	e.Low = rate(max(knee(objective-margin), 1), margin)
	e.High = rate(knee(objective+margin), -min(margin, 0.9*itl(b)))
	if e.Extrapolated {
		e.Low = min(e.Low, rate(s.Most, 0))
	}
	return e, true
}

// deviation is the standard error of the fitted ITL at a load in scaled units, x = (1, b, kv): σ·√(x'·N⁻¹·x), where N
// are the normal equations divided by ten, because errors of neighbouring minutes are correlated. It is at least 1.5 %
// of the mean ITL.
func (s *Service) deviation(b, kv float64) float64 {
	n := &s.Normal
	y, _ := solve([3][4]float64{{n[0], n[1], n[2], 1}, {n[1], n[3] + 1e-6*n[3], n[4], b}, {n[2], n[4], n[5] + 1e-6*n[5], kv}})
	return max(perMean*s.Scale*math.Sqrt(max(10*(y[0]+b*y[1]+kv*y[2]), 0)), 0.015*n[6]/n[0])
}
