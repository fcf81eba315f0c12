// Package sketch holds the small mergeable summaries that windows are made of: quantile sketches, moments, heavy
// hitters. Pure maths: no clock, no I/O.
//
// Invariants: merging the summaries of two parts equals summarising the whole, within the error each type states.
// Bounds: each type states its largest size.
package sketch
