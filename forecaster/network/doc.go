// Package network is a small quantile network that forecasts any series from its first minutes on. One set of weights
// serves all series. It is trained beforehand on public traces (forecaster/network/train/train.py), so a new series
// gets forecast errors like those of similar histories: cross-learning (Montero-Manso and Hyndman 2021,
// doi:10.1016/j.ijforecast.2021.03.004).
//
// The package is pure: no clock, no log, no I/O, no state. A forecast is a function of a model.History. Features do not
// depend on the unit of the series, on absolute time or on the size of the load.
package network
