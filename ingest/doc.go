// Package ingest turns the bytes that producers publish into the few records the pipeline folds: requests, sums,
// replica states, acknowledgements and watermarks.
//
// It is pure: no clock, no I/O, no logging, no goroutine. Adapters in its sub-packages own the sockets.
//
// Invariants: a decoder never panics and never keeps a slice of its input; one bad record refuses that record and no
// other; what a producer did not report stays unknown ([Unknown], NaN, zero time) and never becomes zero; prompt text
// is never kept, not even of a record that is refused ([Redact]). Units: token counts are integers, times have
// millisecond resolution or better, in UTC.
//
// Bounds: [Limits] bounds message size, nesting, batch length, label length and counts; [Deduper] bounds its memory by
// entries, and counts what it had to forget.
package ingest
