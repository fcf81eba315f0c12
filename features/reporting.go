package features

import "math"

// reporting nowcasts one dimension of one class. The model of a value c at age d is c/φ steps of size φ, from a Poisson
// process thinned by F(d). The full rate λ has a gamma prior with the mean μ of the recent minutes and a shape
// a = 1/ν², where ν is the variation of minutes about μ beyond Poisson noise. So
//
//	λ | c = (a + c/φ) / (a/μ + F/φ)      nowcast = c + (1−F)·λ
//	variance = φ·(1−F)·λ + ((1−F)·λ)²/(a + c/φ) + the uncertainty of F
//
// the negative binomial of a Poisson–gamma mixture. It is the chain ladder c/F for an uninformative level (a → 0), and
// follows the level when little is reported (Bornhuetter and Ferguson 1972; Verrall 2004, North American Actuarial
// Journal 8(3), 67–89). μ is the ratio Σc/ΣF over the minutes before, with exponential weights (the Cape Cod estimate).
// It is unbiased although those minutes are incomplete. A level that the count contradicts has less weight. φ, the
// dispersion of the increments, is learned as in quasi-binomial models (McCullagh and Nelder 1989, §4.5).
//
// The standardised errors of earlier nowcasts at the same age scale the variance and set the interval. So the interval
// holds in the long run even where the model is wrong, such as for a service that slows down. 400 bytes and 8 per age;
// O(ages) a minute.
type reporting struct {
	Hazards hazards `cbor:"1,keyasint"`

	// Σ(x − g·N)² and Σ N·g·(1−g) over increments; their ratio is φ.
	Misfit   float32 `cbor:"2,keyasint"`
	Expected float32 `cbor:"3,keyasint"`

	// Of settled minutes: Σc and ΣF with exponential weights, and their deviation from the level before them.
	Level    float32 `cbor:"4,keyasint"`
	Exposure float32 `cbor:"5,keyasint"`
	Stray    float32 `cbor:"6,keyasint"` // mean of (c − μ)²
	Usual    float32 `cbor:"7,keyasint"` // mean of μ
	Strays   float32 `cbor:"8,keyasint"` // number of minutes, up to strayMinutes

	Errors [scoredAges]ageErrors `cbor:"9,keyasint"`

	Size float32 `cbor:"10,keyasint"` // mean value of a record: the initial φ
}

const (
	priorIncrements = 20         // weight of Size in φ, in steps
	sizeRecords     = 100        // memory of Size, in the records of ten minutes
	levelFade       = 1 - 1./8   // decay of the level's weights per minute: a memory of eight minutes
	strayMinutes    = 180        // memory of Stray
	priorStray      = 0.1        // prior of ν² …
	priorStrays     = 10         // … and its weight in minutes
	minStray        = 0.05 * .05 // of ν²
	// contradiction is the squared deviation in standard deviations at which a level loses weight. Only counts above
	// the level can reach it, so a smaller bound would bias nowcasts of rare classes upwards.
	contradiction = 9
)

func newReporting(ages int) reporting {
	d := reporting{Hazards: newHazards(ages)}
	for i := range d.Errors {
		d.Errors[i] = newAgeErrors()
	}
	return d
}

func (d *reporting) fade(keep float32) {
	d.Hazards.fade(keep)
	d.Misfit *= keep
	d.Expected *= keep
}

// learn adds the increment x at an age; n is the value after it.
func (d *reporting) learn(age int, x, n float64) {
	if g := d.Hazards.at(age); g > 0 && g < 1 && n > 0 {
		e := x - g*n
		d.Misfit += float32(e * e)
		d.Expected += float32(n * g * (1 - g))
	}
	d.Hazards.learn(age, x, n)
}

// weigh updates Size from the sum of the values of the open minutes and their number of records.
func (d *reporting) weigh(sum, records float64) {
	if records <= 0 {
		return
	}
	if w := records / (records + sizeRecords); d.Size == 0 {
		d.Size = float32(sum / records)
	} else {
		d.Size += float32(w * (sum/records - float64(d.Size)))
	}
}

// quantum is φ.
func (d *reporting) quantum() float64 {
	size := float64(d.Size)
	prior := priorIncrements * size
	if q := (float64(d.Misfit) + size*prior) / (float64(d.Expected) + prior); q > size/2 {
		return q
	}
	return size / 2
}

// stray is ν².
func (d *reporting) stray(quantum float64) float64 {
	own := 0.0
	if u := float64(d.Usual); u > 0 {
		own = math.Max(0, (float64(d.Stray)-quantum*u)/(u*u))
	}
	w := priorStrays / (priorStrays + float64(d.Strays))
	return math.Max(w*priorStray+(1-w)*own, minStray)
}

// estimate nowcasts a minute with the value counted so far; level is μ, NaN when there is none. few reports that so
// little is missing that it may be nothing.
func (d *reporting) estimate(age int, counted float64, s share, level, quantum float64) (e Estimate, few bool) {
	if s.reported == 1 || !(quantum > 0) || math.IsNaN(counted) {
		return complete(counted), false
	}
	shape, steps := d.shape(counted, s.reported, level, quantum), counted/quantum
	rate := 0.0
	switch {
	case shape > 0:
		rate = (shape + steps) / (shape/level + s.reported/quantum)
	case s.reported > 0:
		rate = counted / s.reported
	}
	missing := (1 - s.reported) * rate
	variance := quantum * math.Abs(missing)
	if known := shape + steps; known > 0 {
		own := steps / known // the part of the rate that depends on F
		off := rate * (own + (1-own)*s.reported)
		variance += missing*missing/known + off*off*s.logVariance
	}
	e = Estimate{Mean: math.Max(0, counted+missing), Counted: counted, Share: s.reported}
	was := &d.Errors[min(age, scoredAges-1)]
	if few = missing >= 0 && missing < fewSteps*quantum; few {
		e.SD = math.Sqrt(variance * float64(was.Few.Square))
		e.Low = counted
		e.High = math.Max(counted, e.Mean+float64(was.Few.High)*e.SD)
		return e, few
	}
	e.SD = math.Sqrt(variance * float64(was.Many.Square))
	e.Low = math.Max(0, e.Mean+float64(was.Many.Low)*e.SD)
	if missing > 0 {
		e.Low = math.Max(e.Low, counted)
	}
	e.High = math.Max(e.Low, e.Mean+float64(was.Many.High)*e.SD)
	return e, few
}

// shape is the prior's, reduced where the count contradicts the level; 0 without a level.
func (d *reporting) shape(counted, reported, level, quantum float64) float64 {
	if !(level > 0) {
		return 0
	}
	shape, expected := 1/d.stray(quantum), reported*level
	if expected == 0 {
		return shape // nothing is expected yet, so no count contradicts the level
	}
	z2 := (counted - expected) * (counted - expected) / (quantum*expected + expected*expected/shape)
	return shape / math.Max(1, z2/contradiction)
}

// settle adds the final value of a minute.
func (d *reporting) settle(y float64) {
	if d.Exposure > 0 {
		level := float64(d.Level) / float64(d.Exposure)
		d.Strays = min(d.Strays+1, strayMinutes)
		d.Stray += (float32((y-level)*(y-level)) - d.Stray) / d.Strays
		d.Usual += (float32(level) - d.Usual) / d.Strays
	}
	d.Level = levelFade*d.Level + float32(y)
	d.Exposure = levelFade*d.Exposure + 1
}
