// Package jetstream connects Forewarm to NATS JetStream: it runs or joins a server, keeps the streams, delivers
// telemetry in stream order, and publishes what must not be lost or reordered.
//
// Invariants: batches reach the pipeline strictly in the order of the stream, each exactly once per run; a stream that
// Forewarm did not make is never changed; only the pipeline can block the consumer. Constructors start
// nothing; Run blocks until its context ends, and what it started has ended by then. Units: sizes are bytes, sequences
// are those of the telemetry stream. Bounds: prefetch, decode-ahead, relayed messages and dead letters each have a
// constant bound, stated where it is defined.
package jetstream
