// Package sketch has small mergeable summaries for windows: quantile sketches, moments, heavy hitters. It is pure
// maths: no clock, no I/O.
//
// Invariants: merging the summaries of two parts equals summarising the whole, within the error each type states.
// Bounds: each type states its largest size.
package sketch
