// Package ingest defines the few records that the pipeline applies (requests, sums, replica states, acknowledgements,
// histories and watermarks), their limits and their subjects, and remembers which records were seen.
//
// It is pure: no clock, no I/O, no logging, no goroutine. Package codec decodes and encodes the records; the other
// sub-packages own the sockets.
//
// What a producer did not report stays unknown ([Unknown], NaN, zero time) and never becomes zero. Token counts are
// integers. Times have millisecond resolution or better and are in UTC.
//
// [Limits] bounds message size, nesting, batch length, label length and counts. [Deduper] bounds its memory by entries
// and counts what it had to forget.
package ingest
