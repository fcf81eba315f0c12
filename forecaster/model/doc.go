// Package model holds the history of one series in little memory, and statistics of it: levels, moves, and the same
// time of earlier days by the pool's calendar.
//
// Pure: no clock, no log, no I/O. Invariants: minutes come in order; a missing minute (NaN) is skipped, never read as
// zero. Cost: O(1) per minute. Bounds: 6 KiB a series.
package model
