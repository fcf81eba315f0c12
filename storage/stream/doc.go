// Package stream keeps in JetStream what must last: each tick's decisions with the state that they leave, what the tick has to
// tell, and snapshots of the whole state.
//
// The stream FOREWARM_DECISIONS has one subject for a pool's decisions and one for each notice that a newer one replaces. All
// that one tick adds is one atomic batch, and is stored only where each pool's newest decision is the one that the writer knows:
// so several daemons with one configuration write each tick once, and a daemon that was paused writes nothing. Who comes second
// compares what is there with its own.
//
// Bounds: queueBytes of ticks that wait to be stored; messages go with storage.retention, notices with twice the time for which
// they are worth telling.
package stream
