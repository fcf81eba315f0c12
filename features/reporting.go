package features

import "math"

// reporting nowcasts one dimension of one class. The model of a value c at age d is c/φ records of size φ, from a Poisson
// process thinned by F(d). The full rate λ has a gamma prior with the mean μ of the recent minutes and the shape
// a = 1/ν², where ν is how far minutes vary about μ. So
//
//	λ | c = (a + c/φ) / (a/μ + F/φ)      nowcast = c + (1−F)·λ
//
// the mean of a Poisson–gamma mixture. It is the chain ladder c/F for many records, and follows the level when little is
// reported (Bornhuetter and Ferguson 1972; Verrall 2004, North American Actuarial Journal 8(3), 67–89). μ is the ratio
// Σc/ΣF over the minutes before, with exponential weights (the Cape Cod estimate). It is unbiased although those minutes
// are incomplete. O(ages) in memory and time a minute.
//
// A nowcast has no interval of its own: forecasts start from nowcasts, so their calibration has the uncertainty of both.
type reporting struct {
	Hazards hazards `cbor:"1,keyasint"`

	// Of settled minutes: Σc and ΣF with exponential weights.
	Level    float32 `cbor:"4,keyasint"`
	Exposure float32 `cbor:"5,keyasint"`

	Size float32 `cbor:"10,keyasint"` // φ, the mean value of a record
}

const (
	sizeRecords = 100      // memory of Size, in the records of ten minutes
	levelFade   = 1 - 1./8 // decay of the level's weights per minute: a memory of eight minutes
	stray       = 0.1      // ν². From 0.01 to 0.3, nowcasts of five traces are as good
)

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

// estimate nowcasts a minute with the value counted so far, of which the share reported is expected to be in it; level
// is μ, NaN when there is none.
func (d *reporting) estimate(counted, reported, level float64) Estimate {
	size := float64(d.Size)
	if reported == 1 || !(size > 0) || math.IsNaN(counted) {
		return Complete(counted)
	}
	rate := 0.0
	if level > 0 {
		rate = (1/stray + counted/size) / (1/(stray*level) + reported/size)
	} else if reported > 0 {
		rate = counted / reported
	}
	return Estimate{Mean: math.Max(0, counted+(1-reported)*rate), Counted: counted, Share: reported}
}

// settle adds the final value of a minute.
func (d *reporting) settle(y float64) {
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
	priorRecords = 30.0  // weight of the prior, in records
	maxRecords   = 300.0 // records of its own from which on a class does not need the prior
)

// blend is g(age) of a class with the prior of its pool. The weight of the prior falls linearly to zero at maxRecords of
// the class, so that a class with its own delays does not keep the pool's.
func (h hazards) blend(age int, pool hazards, size float64) float64 {
	if !(size > 0) {
		return pool.at(age)
	}
	own := math.Max(0, float64(h[age-1].Seen)/size)
	prior := priorRecords * math.Max(0, 1-own/maxRecords)
	return (own*h.at(age) + prior*pool.at(age)) / (own + prior)
}

// shares fills f with F, the reported share of a minute's value, by age from 0 to the settled age.
func (h hazards) shares(f []float64, pool hazards, size float64) {
	last := len(f) - 1
	f[last] = 1
	for age := last; age > 0; age-- {
		f[age-1] = f[age] * (1 - h.blend(age, pool, size))
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
