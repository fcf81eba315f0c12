package forecaster

import (
	"cmp"
	"slices"

	"github.com/forewarm/forewarm/features"
)

// Over how many minutes it is measured what retries add to the load, and which share of the attempts they are.
const (
	retrySpan   = 10
	retryRecent = 3
	retryKept   = Horizon + retrySpan + 10 // outcomes of the last hour are still asked for
)

// retries is what a pool's calls that were tried again added to its load, minute by minute. Demand is of calls, each counted
// once: it is forecast, and what it is multiplied by to be the load of all attempts is measured here.
type retries struct {
	Rows []features.Attempts `cbor:"1,keyasint,omitempty"` // of the last retryKept minutes, ascending
}

// place is that of the first row from a minute on.
func (r *retries) place(minute int64) int {
	at, _ := slices.BinarySearchFunc(r.Rows, minute, func(a features.Attempts, m int64) int { return cmp.Compare(a.Minute, m) })
	return at
}

// observe takes what is known of the newest minutes, in place of what was known of them before.
func (r *retries) observe(rows []features.Attempts, newest int64) {
	if len(rows) > 0 {
		at := r.place(rows[0].Minute)
		r.Rows = append(r.Rows[:at:at], rows...)
	}
	r.Rows = r.Rows[r.place(newest-retryKept):]
}

// sound says whether rows that were read are in order.
func (r *retries) sound() bool {
	return slices.IsSortedFunc(r.Rows, func(a, b features.Attempts) int { return cmp.Compare(a.Minute, b.Minute) })
}

// between are the rows of the minutes from…to.
func (r *retries) between(from, to int64) []features.Attempts {
	return r.Rows[r.place(from):r.place(to+1)]
}

// factor is the load of all attempts over that of calls in the minutes up to one. A storm counts as soon as it is seen.
func (r *retries) factor(dimension string, minute int64) float64 {
	factor := features.LoadFactor(r.between(minute-retrySpan+1, minute), dimension)
	if share, attempts := r.recent(minute); share >= StormShare && attempts >= StormAttempts {
		factor = max(factor, features.LoadFactor(r.between(minute-retryRecent+1, minute), dimension))
	}
	return factor
}

// When retries are a storm: from this share of the attempts of the last three minutes on, and in no fewer attempts.
const (
	StormShare    = 0.15
	StormAttempts = 20
)

// recent is the share of the attempts of three minutes that were retries, and how many attempts those were.
func (r *retries) recent(minute int64) (share, attempts float64) {
	for _, row := range r.between(minute-retryRecent+1, minute) {
		share += float64(row.Retries)
		attempts += float64(row.Retries) + float64(row.Calls[0])*features.Minute.Seconds()
	}
	return share / max(attempts, 1), attempts
}

// Retries is what calls that are tried again add to the load of a pool.
type Retries struct {
	// Factors are the load of all attempts over that of calls in the last ten minutes, by the place of a dimension in
	// PoolForecast.Total; nil when nothing was tried again.
	Factors []float64
	// Share of the attempts of the last three minutes that were retries, and how many attempts those were.
	Share, Attempts float64
}

// forecast is what holds for the minutes ahead: retries go on as they are.
func (r *retries) forecast(newest int64, total []Forecast) (out Retries) {
	out.Share, out.Attempts = r.recent(newest)
	for i := range total {
		out.Factors = append(out.Factors, r.factor(total[i].Dimension, newest))
	}
	if !slices.ContainsFunc(out.Factors, func(x float64) bool { return x > 1 }) {
		out.Factors = nil
	}
	return out
}

// Factor is the load of all attempts over that of calls, of a dimension; 1 without retries.
func (pf *PoolForecast) Factor(dimension string) float64 {
	for i, factor := range pf.Retries.Factors {
		if pf.Total[i].Dimension == dimension {
			return factor
		}
	}
	return 1
}

// Load is pf with the load of all attempts in place of the demand of calls, in the pool's total, its paths and its classes:
// what replicas have to do. It is pf itself without retries.
func (pf *PoolForecast) Load() *PoolForecast {
	if pf.Retries.Factors == nil {
		return pf
	}
	out := *pf
	out.Total, out.Classes = slices.Clone(pf.Total), slices.Clone(pf.Classes)
	for _, all := range [][]Forecast{out.Total, out.Classes} {
		for i := range all {
			if by := pf.Factor(all[i].Dimension); by > 1 {
				all[i].magnify(by)
			}
		}
	}
	out.Paths.At = make([][][Horizon]float32, len(pf.Paths.At))
	for d, name := range pf.Paths.Dimensions {
		out.Paths.At[d] = slices.Clone(pf.Paths.At[d])
		by := float32(pf.Factor(name))
		for j := range out.Paths.At[d] {
			for h := range Horizon {
				out.Paths.At[d][j][h] *= by
			}
		}
	}
	return &out
}

func (f *Forecast) magnify(by float64) {
	f.Last *= by
	magnify(&f.Now, by)
	for i := range f.WindowMax {
		f.WindowMax[i] *= by
		for h := range f.Minute {
			f.Minute[h][i] *= by
		}
	}
}
