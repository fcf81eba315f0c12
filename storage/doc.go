// Package storage keeps on disk what the fold produced: series in an embedded Prometheus TSDB, an append-only journal of
// decisions, an outbox of what is to be told, and snapshots of the pipeline's state.
//
// It decides nothing and owns no goroutine of its own; the TSDB compacts in the background. One process owns a directory
// ([Lock]).
//
//	<dir>/lock                          held while a daemon runs
//	<dir>/tsdb/                         Prometheus TSDB: write-ahead log, blocks
//	<dir>/journal/journal-000001.log    decisions, in (tick, pool) order
//	<dir>/outbox/outbox.log             notices that may not be delivered yet, and who has which
//	<dir>/snapshots/snapshot-000000001.fws
//	<dir>/remote/queue-000001.log       samples that a remote has not got yet
//
// # Series
//
// A window's values are stamped with the window's end, a forecast with its origin (never with the time it is about: a
// sample in the future would make the TSDB refuse the present). A forecast for horizon h issued at t is about the minute
// that ends at t+h, so that in PromQL these speak of the same minute:
//
//	forewarm_demand_requests_per_second
//	forewarm_forecast{dimension="requests",horizon="15",quantile="0.5"} offset 15m
//
// Class "*" is the pool. The classes beyond the Config.MaxClasses heaviest are kept together as class "_other", what adds
// up of them and without forecasts; a class that comes to weigh twice as much as a kept one takes its place within the
// hour. Unknown values make no sample, and never a zero.
//
// # Journal
//
// A segment is the line "forewarm journal 1\n" followed by records. A record is, little-endian:
//
//	4 bytes  length of the payload, 1 … 1 MiB
//	4 bytes  CRC-32C of the payload
//	payload  one alerting.Decision, deterministic CBOR (RFC 8949 §4.2.1), times as RFC 3339 with nanoseconds
//
// Each record is one write(2), so it survives the death of the process; [Journal.Sync] makes it survive that of the
// machine. On opening, what follows the last intact record of the last segment is cut off and kept beside it as
// journal-000001.log.cut. Positions (tick, pool) strictly increase. A journal may be ahead of the snapshot after a crash:
// the replay offers the same decisions again, which are compared and not written twice.
//
// # Outbox
//
// The file is the line "forewarm outbox 1\n" followed by records framed like those of the journal. The payload is a CBOR
// map of any of these:
//
//	1  Unix seconds of a tick: all that it has to tell precedes this record
//	2  notices, each with its expiry by the wall clock
//	3  deliveries: sink, identity of the notice, its id, Unix seconds
//
// What a tick has to tell is written after its decisions are in the journal and before any sink is told; a delivery is
// written when the sink has it. So a crash may repeat a delivery, under the same id, and loses none. The file is written
// anew, with what still matters, on opening and when it has grown to four times that and 1 MiB. What follows damage in it is
// lost, and said to be.
//
// # Queue
//
// A segment is the line "forewarm queue 1\n" followed by records framed like those of the journal. The payload is the number
// of samples (4 bytes) and a prometheus.WriteRequest, compressed by snappy. The file cursor is the line "forewarm queue
// cursor 1\n", the number of the segment and the offset of the record that are to be sent next (8 bytes each). It is written
// once a second and on closing; what it is behind is sent again.
//
// # Snapshots
//
// A file is, little-endian:
//
//	 8 bytes  "FWSNAP\r\n"
//	 4 bytes  format version, 2
//	 8 bytes  stream sequence that the state includes
//	 8 bytes  creation time of the stream, Unix nanoseconds
//	 2 bytes  length of the stream's name, and the name
//	payload   the pipeline's state, opaque here
//	 8 bytes  length of the payload
//	32 bytes  SHA-256 of the payload
//	 4 bytes  CRC-32C of all bytes but the payload
//
// It is written from its beginning to its end and read likewise, so that neither takes memory. Version 1 had length and
// digest before the payload, and is refused.
// Files are written beside, synced, renamed, and the directory synced. The newest two are kept; a damaged newest one is
// reported and the older one taken. State of another stream is refused.
//
// # Versions
//
// Each first line or header names the version of its format. Within a version, maps may only gain keys: readers pass over
// those they do not know, and a key's number never gets another meaning. testdata/vN holds what the first daemon with a
// format N of any of these left on disk, and every later one must read it. [Verify] checks a directory against this page.
//
// Invariants: appending again what is stored changes nothing; a failed or refused sample is counted and never stops the
// pipeline; no file is read beyond its stated bounds. Bounds: Config.MaxClasses classes, Config.MaxSeries active series, Config.Retention and
// Config.MaxBytes of history, 64 MiB a segment, 1 GiB a snapshot, two snapshots.
package storage
