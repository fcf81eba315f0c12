// Package net is a small quantile network that forecasts any series from the first minutes on: one set of weights for all
// of them, fitted beforehand on public traces (forecaster/net/fit). What one series cannot show for days, the shape of the
// errors that a history of this kind leads to, the network has seen in others: cross-learning (Montero-Manso and Hyndman
// 2021, doi:10.1016/j.ijforecast.2021.03.004).
//
// Pure: no clock, no log, no I/O. It keeps nothing: a forecast is a function of a model.History. Features are free of the
// series' unit, of absolute time and of the size of the load. Cost: about 9 µs for the features and 7 µs for the forecast
// of all targets.
package net
