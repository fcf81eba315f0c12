// Package plan answers, before a launch, which resource of a pool runs out first, when, and how many replicas it takes:
// the launch sheet, and the what-ifs beside it.
//
// It works on loads: sums over requests per second, with the second moments that decide how much KV cache is held. A
// [Change] multiplies them, a [Scenario] names a change, and [New] sets each against what the pool can carry. Pure: no
// clock, no I/O. Cost O(minutes · scenarios).
package plan
