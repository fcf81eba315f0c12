// Package listener takes in telemetry from producers that do not speak NATS: OTLP over HTTP and gRPC, and every other
// format of package codec over HTTP.
//
// Only the decoded records are stored, because the raw bytes may hold prompts. The answer says success once the telemetry
// stream has all records. A producer may send them again: the pipeline drops records with ids that it has seen.
//
// The listener is off until it has an address. It accepts clients that hold the token or a certificate, and must ask for
// one of them where its address is not loopback. Bounds: bytes of a request, as sent and decompressed, requests a
// second, requests at once, connections, header bytes, and the time that each step may take. What is over a bound is
// refused with a status that says whether to try again, and counted.
package listener
