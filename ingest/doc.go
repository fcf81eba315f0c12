// Package ingest defines the records that the pipeline applies (requests, sums, replica states, acknowledgements,
// histories and watermarks), their limits and their subjects, and finds duplicates.
//
// It is pure: no clock, no I/O, no logging, no goroutine. Package codec decodes and encodes the records; the other
// sub-packages own the sockets.
//
// Values that a producer does not report are unknown ([Unknown], NaN, zero time) and never zero. Token counts are
// integers. Times have millisecond resolution or better and are in UTC.
//
// [Limits] bounds message size, nesting, batch length, label length and counts. [Deduper] bounds its entries and counts
// dropped ones.
package ingest
