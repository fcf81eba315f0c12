package forecaster

// pending keeps, for every target, the forecasts whose outcomes are still to come: one ring per target, as long as its
// lead and the settling time. About 80 KiB a series without settling time.
type pending struct {
	start [numTargets + 1]int // ring of target k is rows[start[k]:start[k+1]]
	rows  []pendingRow
}

type pendingRow struct {
	Minute int64 // the newest minute when the forecast was made
	Points [numModels]float32
	Spread spreads
	Axes   [numDistributions]axis
	Mixed  figures
	Issued figures
}

func newPending(settle int) pending {
	var p pending
	for k, x := range targets {
		p.start[k+1] = p.start[k] + x.to + settle + 1
	}
	p.rows = make([]pendingRow, p.start[numTargets])
	for i := range p.rows {
		p.rows[i].Minute = -1
	}
	return p
}

func (p *pending) row(k int, minute int64) *pendingRow {
	n := int64(p.start[k+1] - p.start[k])
	return &p.rows[p.start[k]+int(((minute%n)+n)%n)]
}

func (p *pending) put(k int, minute int64, x *points, issued *Quantiles) {
	r := p.row(k, minute)
	r.Minute, r.Spread, r.Axes, r.Mixed, r.Issued = minute, x.spread, x.axis, x.mixed, narrow(issued)
	for e, row := range catalog {
		r.Points[row.model] = x.z[e]
	}
}

func (p *pending) get(k int, minute int64) (x points, issued Quantiles, ok bool) {
	r := p.row(k, minute)
	if r.Minute != minute || minute < 0 {
		return x, issued, false
	}
	x.spread, x.axis, x.mixed = r.Spread, r.Axes, r.Mixed
	x.spell(&r.Points)
	return x, r.Issued.wide(), true
}

// spell gives every expert the point of its model.
func (p *points) spell(at *[numModels]float32) {
	for e := range catalog {
		p.z[e] = at[catalog[e].model]
	}
}
