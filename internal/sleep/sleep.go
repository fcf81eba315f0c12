// Package sleep waits for a time, or until a context ends.
package sleep

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends: then it is false.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
