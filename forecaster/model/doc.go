// Package model holds the experts: small streaming forecasters of one series, one file each, with the source of the
// method.
//
// Pure: no clock, no log, no I/O. Invariants: one Update per minute in order; a missing minute (NaN) is skipped; a
// forecast is finite and non-negative or is not given. Cost: O(1) per step. Bounds: each model states its memory.
package model
