//go:build !linux && !darwin && !freebsd

package storage

import "math"

// Free does not look: that the disk is full is learned from writes that fail.
func Free(string) (int64, error) { return math.MaxInt64, nil }
