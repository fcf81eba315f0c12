package forecaster

import (
	"slices"

	"github.com/forewarm/forewarm/features"
)

// Minutes.
const (
	retrySpan   = 10                       // for the load that retries add
	retryRecent = 3                        // for their share of the attempts
	retryKept   = Horizon + retrySpan + 10 // outcomes of the last hour are still needed
)

// retries are the attempts of a pool by minute. Demand is of calls, each counted once, and is forecast. The factor from
// demand to the load of all attempts is measured here.
type retries struct {
	Rows []features.Attempts `cbor:"1,keyasint,omitempty"` // of the last retryKept minutes, ascending
}

// observe replaces the rows of the newest minutes.
func (r *retries) observe(rows []features.Attempts, newest int64) {
	until := newest
	if len(rows) > 0 {
		until = rows[0].Minute - 1
	}
	r.Rows = append(r.rows(newest-retryKept, until), rows...)
}

func (r *retries) rows(from, to int64) (found []features.Attempts) {
	for _, row := range r.Rows {
		if row.Minute >= from && row.Minute <= to {
			found = append(found, row)
		}
	}
	return found
}

// factor is the load of all attempts over that of calls, up to a minute. A retry storm counts at once.
func (r *retries) factor(dimension string, minute int64) float64 {
	factor := features.LoadFactor(r.rows(minute-retrySpan+1, minute), dimension)
	if share, attempts := r.recent(minute); share >= StormShare && attempts >= StormAttempts {
		factor = max(factor, features.LoadFactor(r.rows(minute-retryRecent+1, minute), dimension))
	}
	return factor
}

// A retry storm has at least this share of retries in the last three minutes, in at least so many attempts.
const (
	StormShare    = 0.15
	StormAttempts = 20
)

// recent is the share of retries in the attempts of three minutes, and the number of attempts.
func (r *retries) recent(minute int64) (share, attempts float64) {
	for _, row := range r.rows(minute-retryRecent+1, minute) {
		share += float64(row.Retries)
		attempts += float64(row.Retries) + float64(row.Calls[0])*features.Minute.Seconds()
	}
	return share / max(attempts, 1), attempts
}

// Retries is the load that retries add to a pool.
type Retries struct {
	// Share of retries in the attempts of the last three minutes, and the number of attempts.
	Share, Attempts float64
}

// Factor is the load of all attempts over that of calls in a dimension; 1 without retries.
func (pf *PoolForecast) Factor(dimension string) float64 {
	if f := pf.Of(dimension); f != nil {
		return max(f.LoadFactor, 1)
	}
	return 1
}

// Load returns pf with the load of all attempts in place of the demand of calls, in total and classes: the work
// of replicas. Without retries it is pf itself.
func (pf *PoolForecast) Load() *PoolForecast {
	if !slices.ContainsFunc(pf.Total, func(f Forecast) bool { return f.LoadFactor > 1 }) {
		return pf
	}
	out := *pf
	out.Total, out.Classes = slices.Clone(pf.Total), slices.Clone(pf.Classes)
	for _, all := range [][]Forecast{out.Total, out.Classes} {
		for i := range all {
			if by := pf.Factor(all[i].Dimension); by > 1 {
				all[i].scale(by)
			}
		}
	}
	return &out
}

func (f *Forecast) scale(by float64) {
	f.Last *= by
	scale(&f.Now, by)
	for i := range f.WindowMax {
		f.WindowMax[i] *= by
		for h := range f.Minute {
			f.Minute[h][i] *= by
		}
	}
	f.Paths = slices.Clone(f.Paths)
	for j := range f.Paths {
		for h := range f.Paths[j] {
			f.Paths[j][h] *= float32(by)
		}
	}
}
