//go:build race

package codec

// raceDetector: with the race detector there are more allocations, so tests do not count them.
const raceDetector = true
