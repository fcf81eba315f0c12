package forecaster

import "github.com/forewarm/forewarm/forecaster/model"

// expert is one row of the catalog.
type expert struct {
	name string
	make func() model.Expert
	// baseline: the combination must beat it; when it does not, the best baseline answers in its place.
	baseline bool
	// unit is the spread in which its errors are measured.
	unit int
	// axis, counted from 1, says that the expert is a model.Distributor and which of the axes it fills; 0: it gives points.
	axis int
	// prior is the weight it starts with, relative to the others'; 0 means 1.
	prior float64
	// shape are the quantiles that its errors are taken to have before it has made any; nil means normal ones.
	shape *Quantiles
}

func (x *expert) weight() float64 {
	if x.prior == 0 {
		return 1
	}
	return x.prior
}

func (x *expert) residuals() (q Quantiles) {
	if x.shape != nil {
		return *x.shape
	}
	width := priorWidth
	if x.axis > 0 {
		width = 1
	}
	for i := range q {
		q[i] = width * gaussian[i]
	}
	return q
}

// catalog lists the experts of every series, in the order in which weights are kept. Order is part of the snapshot's
// meaning: add at the end, and raise snapshotVersion when a row changes.
var catalog = [...]expert{
	{name: "last", baseline: true, unit: spreadMixed, make: func() model.Expert { return model.Last{} }},
	{name: "seasonal_day", baseline: true, unit: spreadMixed, make: func() model.Expert { return model.SeasonalDay{} }},
	{name: "seasonal_week", baseline: true, unit: spreadMixed, make: func() model.Expert { return model.SeasonalWeek{} }},
	{name: "recent_15m", unit: spreadMixed, make: func() model.Expert { return model.Recent{Minutes: 15} }},
	{name: "level_10m", unit: spreadMixed, make: func() model.Expert { return model.Level{Scale: model.Level10m} }},
	{name: "level_30m", unit: spreadMixed, make: func() model.Expert { return model.Level{Scale: model.Level30m} }},
	{name: "level_90m", unit: spreadMixed, make: func() model.Expert { return model.Level{Scale: model.Level90m} }},
	{name: "level_1d", unit: spreadMixed, make: func() model.Expert { return model.Level{Scale: model.Level1d} }},
	{name: "trend", unit: spreadMixed, make: func() model.Expert { return &model.Trend{Alpha: 0.08, Beta: 0.02, Phi: 0.97} }},
	{name: "drift_day", unit: spreadMixed, make: func() model.Expert { return model.SeasonalDrift{} }},
	{name: "drift_week", unit: spreadMixed, make: func() model.Expert { return model.SeasonalDrift{Week: true} }},
	{name: "sessions", unit: spreadDay, make: func() model.Expert { return new(model.Given) }},
}

const (
	numExperts = len(catalog)
	// numDistributions is how many rows have an axis.
	numDistributions = 0
)
