// Package codec decodes the messages that producers publish into records of package ingest, and encodes such records.
//
// It is pure: no clock, no I/O, no logging, no goroutine. A decoder never panics and never keeps a slice of its input. One
// bad record refuses that record and no other. Prompt text is never kept, not even of a record that is refused ([Redact]).
package codec
