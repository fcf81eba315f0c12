package forecaster

import (
	"slices"

	"github.com/forewarm/forewarm/forecaster/model"
	"github.com/forewarm/forewarm/forecaster/network"
)

// source is one row of models: what gives points, or whole distributions.
type source struct {
	name string
	make func() model.Expert
	// axis, counted from 1, says that it is a model.Distributor and which of the axes it fills; 0: it gives points.
	axis int
}

// models lists what the experts of every series go by, in the order in which points are kept. Add at the end, and raise
// snapshotVersion when a row changes.
var models = [...]source{
	{name: "last", make: func() model.Expert { return model.Last{} }},
	{name: "level_1d", make: func() model.Expert { return model.Level{Scale: model.Level1d} }},
	{name: "drift_day", make: func() model.Expert { return model.SeasonalDrift{} }},
	{name: "drift_week", make: func() model.Expert { return model.SeasonalDrift{Week: true} }},
	{name: "network", axis: 1, make: func() model.Expert { return network.New(network.Fitted()) }},
	{name: "last_errors", axis: 2, make: lastErrors},
}

const (
	numModels = len(models)
	// numDistributions is how many rows of models have an axis.
	numDistributions = 2
)

func lastErrors() model.Expert {
	var spans [][2]int
	for _, x := range targets {
		spans = append(spans, [2]int{x.from, x.to})
	}
	return model.NewLastErrors(spans)
}

// modelAt is the place of a model by name.
func modelAt(name string) int {
	return slices.IndexFunc(models[:], func(x source) bool { return x.name == name })
}

// expert is one row of the catalog: a model, and how its errors are measured.
type expert struct {
	name  string
	model int
	// plain: errors are differences from the point, in the spread of a day; not plain: of square roots, in the mixed spread.
	plain bool
	// fixed: its distribution is that of its own errors already, and they are not tracked.
	fixed bool
	// prior is the weight it starts with, relative to the others'; 0 means 1.
	prior float64
	// stake is how many outcomes it takes until what was learned of the series weighs as much as the weights it starts with,
	// and until its errors are believed more than its shape; 0: a few.
	stake float64
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
	if models[x.model].axis > 0 {
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
	{name: "last", model: modelAt("last"), plain: true},
	{name: "level_1d", model: modelAt("level_1d"), plain: true},
	{name: "drift_day", model: modelAt("drift_day")},
	{name: "drift_week", model: modelAt("drift_week")},
	{name: "network", model: modelAt("network"), prior: networkPrior, stake: networkStake},
	{name: "last_errors", model: modelAt("last_errors"), fixed: true},
}

const numExperts = len(catalog)

// firstExpert is the place of the last value, which speaks from the first minute; lastExpert of that with the quantiles
// of its own errors.
var (
	firstExpert = expertAt("last")
	lastExpert  = expertAt("last_errors")
)

func expertAt(name string) int {
	return slices.IndexFunc(catalog[:], func(x expert) bool { return x.name == name })
}

// What the network has learned of other series outweighs what a series shows in its first day. Tuned with weights that
// were fitted without the services that were scored: without a stake, a class's first hours score 30 % worse.
const (
	networkPrior = 1e6
	networkStake = 3000
)
