package promapi

import "context"

// gate lets a number of queries in at once; it is a promql.QueryTracker. Those that wait do so within their own timeout.
type gate chan struct{}

// GetMaxConcurrent implements promql.QueryTracker.
func (g gate) GetMaxConcurrent() int { return cap(g) }

// Insert waits for a turn; an error means that ctx ended first.
func (g gate) Insert(ctx context.Context, _ string) (int, error) {
	select {
	case g <- struct{}{}:
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Delete gives the turn back.
func (g gate) Delete(int) { <-g }

// Close implements promql.QueryTracker; there is nothing to release.
func (g gate) Close() error { return nil }
