package features

import "math"

// reporting nowcasts one dimension of one class. The model of a value c at age d is c/φ steps of size φ, from a Poisson
// process thinned by F(d). The full rate λ has a gamma prior with the mean μ of the recent minutes and a shape
// a = 1/ν², where ν is the variation of minutes about μ beyond Poisson noise. So
//
//	λ | c = (a + c/φ) / (a/μ + F/φ)      nowcast = c + (1−F)·λ
//
// the mean of a Poisson–gamma mixture. It is the chain ladder c/F for an uninformative level (a → 0), and
// follows the level when little is reported (Bornhuetter and Ferguson 1972; Verrall 2004, North American Actuarial
// Journal 8(3), 67–89). μ is the ratio Σc/ΣF over the minutes before, with exponential weights (the Cape Cod estimate).
// It is unbiased although those minutes are incomplete. A level that the count contradicts has less weight. φ, the
// dispersion of the increments, is learned as in quasi-binomial models (McCullagh and Nelder 1989, §4.5). O(ages) in
// memory and time a minute.
//
// A nowcast has no interval of its own: forecasts start from nowcasts, so their calibration has the uncertainty of both.
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

// estimate nowcasts a minute with the value counted so far, of which the share reported is expected to be in it; level
// is μ, NaN when there is none.
func (d *reporting) estimate(counted, reported, level, quantum float64) Estimate {
	if reported == 1 || !(quantum > 0) || math.IsNaN(counted) {
		return Complete(counted)
	}
	rate := 0.0
	if shape := d.shape(counted, reported, level, quantum); shape > 0 {
		rate = (shape + counted/quantum) / (shape/level + reported/quantum)
	} else if reported > 0 {
		rate = counted / reported
	}
	return Estimate{Mean: math.Max(0, counted+(1-reported)*rate), Counted: counted}
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

// lag is the reporting delay of a pool, the prior for young classes.
type lag struct {
	Late bool                        `cbor:"1,keyasint"` // records have come after the first count of their minute
	Gap  int64                       `cbor:"2,keyasint"` // the newest minute without live telemetry at its end
	Rows [forecastDimensions]hazards `cbor:"3,keyasint"`
}

func newLag(revise int64) lag {
	l := lag{Gap: math.MinInt64}
	for i := range l.Rows {
		l.Rows[i] = make(hazards, revise)
	}
	return l
}

// hazards is the reporting delay of one dimension, learned from the reporting triangle: at age d, in minutes since a
// minute's first count, the value of minute m grows by x(m,d) to N(m,d). With exponential forgetting,
//
//	g(d) = Σ x(m,d) / Σ N(m,d)   F(d) = Π_{j>d} (1 − g(j))
//
// g is the hazard in reverse time. It does not need complete minutes: increments of open minutes are learned at once
// (Kalbfleisch and Lawless 1989, Lawless 1994; see Höhle and an der Heiden 2014, doi:10.1111/biom.12194, §3). F(d) is
// the share of the settled value that is reported at age d; 1/F is the chain ladder's development factor (Mack 1993,
// doi:10.2143/AST.23.2.2005092). A value that shrinks with later records (prompt tokens that prove to be cached) has
// negative hazards and shares above 1. O(ages) in time and memory.
type hazards []hazard // by age, from 1

type hazard struct {
	_    struct{} `cbor:",toarray"`
	Late float32  // Σ x
	Seen float32  // Σ N
}

func (h hazards) fade(keep float32) {
	for i := range h {
		h[i].Late *= keep
		h[i].Seen *= keep
	}
}

// learn adds the increment x at an age; n is the value after it.
func (h hazards) learn(age int, x, n float64) {
	h[age-1].Late += float32(x)
	h[age-1].Seen += float32(n)
}

// at is g(age), 0 without data.
func (h hazards) at(age int) float64 {
	x := &h[age-1]
	if !(x.Seen > 0) {
		return 0
	}
	return min(float64(x.Late)/float64(x.Seen), 1)
}

// The delays of a pool are the prior for those of its classes.
const (
	priorSteps = 30.0  // weight of the prior, in steps of a value (see reporting.quantum)
	maxSteps   = 300.0 // steps of its own from which on a class does not need the prior
)

// blend is g(age) of a class with the prior of its pool. The weight of the prior falls linearly to zero at maxSteps of
// the class, so that a class with its own delays does not keep the pool's.
func (h hazards) blend(age int, pool hazards, quantum float64) float64 {
	if !(quantum > 0) {
		return pool.at(age)
	}
	own := math.Max(0, float64(h[age-1].Seen)/quantum)
	prior := priorSteps * math.Max(0, 1-own/maxSteps)
	return (own*h.at(age) + prior*pool.at(age)) / (own + prior)
}

// shares fills f with F, the reported share of a minute's value, by age from 0 to the settled age.
func (h hazards) shares(f []float64, pool hazards, quantum float64) {
	last := len(f) - 1
	f[last] = 1
	for age := last; age > 0; age-- {
		f[age-1] = f[age] * (1 - h.blend(age, pool, quantum))
	}
}

// Memory of the delays: the minutes in which memoryRecords records come, within bounds. Busy classes adapt to a change
// of the service within minutes, sparse ones average over a day.
const (
	memoryRecords = 2000
	minMemory     = 8    // minutes
	maxMemory     = 1440 // minutes
)

// keep is the decay factor of delays per minute, for a rate of records.
func keep(recordsPerMinute float64) float32 {
	return float32(1 - 1/math.Max(minMemory, math.Min(memoryRecords/recordsPerMinute, maxMemory)))
}
