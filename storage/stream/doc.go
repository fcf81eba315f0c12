// Package stream keeps durable data in JetStream: each tick's decisions with the state after them, the notices of the
// tick, and snapshots of the whole state.
//
// The stream FOREWARM_DECISIONS has one subject per pool for decisions, and one per notice identity, where a newer
// notice replaces the older. All messages of a tick are one atomic batch, or several if they are more than maxBatch. A
// batch is stored only if each pool's newest decision is the one that the writer knows. So several daemons with one
// configuration write each tick once, and a daemon that was paused writes nothing. The second writer compares the stored
// decisions with its own.
//
// Bounds: queueBytes of ticks wait to be stored. Messages are deleted after storage.retention, notices after twice
// their useful life.
package stream
