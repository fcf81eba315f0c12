//go:build race

package codec

// raceDetector says that pools drop what they hold now and then and that more escapes to the heap: allocations tell
// nothing.
const raceDetector = true
