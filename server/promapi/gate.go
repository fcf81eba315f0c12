package promapi

import "context"

// gate limits concurrent queries; it is a promql.QueryTracker. The wait counts toward a query's timeout.
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

// Delete ends the turn.
func (g gate) Delete(int) { <-g }

// Close implements promql.QueryTracker.
func (g gate) Close() error { return nil }
