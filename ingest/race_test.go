//go:build race

package ingest

// raceDetector says that pools drop what they hold now and then and that more escapes to the heap: allocations tell
// nothing.
const raceDetector = true
