package model

// NumLevels is the number of quantiles of a forecast.
const NumLevels = 9

// Levels are the quantile levels of every forecast, ascending.
var Levels = [NumLevels]float64{.05, .1, .25, .5, .75, .8, .9, .95, .99}
