package backtest

import (
	"fmt"

	"github.com/forewarm/forewarm/ingest"
)

// DefaultPrefixBlocks is the size of the prefix cache when Options give none: 2²⁰ blocks are more than the traces in
// circulation fill, so that hits are those of a cache without bounds.
const DefaultPrefixBlocks = 1 << 20

// newPrefixCache makes what turns block hashes into cached tokens.
func newPrefixCache(o Options) *ingest.PrefixCache {
	if o.PrefixBlocks <= 0 {
		o.PrefixBlocks = DefaultPrefixBlocks
	}
	return ingest.NewPrefixCache(o.PrefixBlocks)
}

// prefixNote says how cached tokens were found.
func prefixNote(o Options) string {
	if o.PrefixBlocks > 0 {
		return fmt.Sprintf("cached tokens that no row tells are the hits of a cache of %d blocks", o.PrefixBlocks)
	}
	return fmt.Sprintf("cached tokens that no row tells are the hits of a cache that forgets nothing (%d blocks), the most that any could be: bound it by -prefix-blocks", DefaultPrefixBlocks)
}
