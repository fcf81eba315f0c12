package model

// NumLevels is the number of quantiles of a forecast, Levels their levels, ascending.
const NumLevels = 9

// Levels are the levels of all quantiles.
var Levels = [NumLevels]float64{.05, .1, .25, .5, .75, .8, .9, .95, .99}
