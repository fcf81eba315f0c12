// Package plan answers, before a launch, which resource of a pool runs out first, when, and how many replicas are
// needed: the launch sheet and its scenarios.
//
// It works on loads: sums over requests per second, with the second moments that decide how much KV cache is held. A
// [Change] multiplies them, a [Scenario] is a named change, and [New] compares each with the pool's capacity. Pure: no
// clock, no I/O. Cost O(minutes · scenarios).
package plan
