package forecaster

import "github.com/forewarm/forewarm/forecaster/model"

// expert is one row of the catalog. A baseline is what the combination must beat; when it does not, the best baseline
// answers in its place.
type expert struct {
	name     string
	baseline bool
	make     func() model.Expert
}

// catalog lists the experts of every series, in the order in which weights are kept. Order is part of the snapshot's
// meaning: add at the end, and raise snapshotVersion when a row changes.
var catalog = [...]expert{
	{"last", true, func() model.Expert { return model.Last{} }},
	{"seasonal_day", true, func() model.Expert { return model.SeasonalDay{} }},
	{"seasonal_week", true, func() model.Expert { return model.SeasonalWeek{} }},
	{"recent_15m", false, func() model.Expert { return model.Recent{Minutes: 15} }},
	{"level_10m", false, func() model.Expert { return model.Level{Scale: model.Level10m} }},
	{"level_30m", false, func() model.Expert { return model.Level{Scale: model.Level30m} }},
	{"level_90m", false, func() model.Expert { return model.Level{Scale: model.Level90m} }},
	{"level_1d", false, func() model.Expert { return model.Level{Scale: model.Level1d} }},
	{"trend", false, func() model.Expert { return &model.Trend{Alpha: 0.08, Beta: 0.02, Phi: 0.97} }},
	{"drift_day", false, func() model.Expert { return model.SeasonalDrift{} }},
	{"drift_week", false, func() model.Expert { return model.SeasonalDrift{Week: true} }},
}

const numExperts = len(catalog)
