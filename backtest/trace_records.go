package backtest

import (
	"cmp"
	"fmt"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// recordReader reads recorded telemetry, one JSON object per line, with the daemon's decoder. A record becomes known at
// the request's end, if that is known.
type recordReader struct {
	lines *lineScanner
	meta  codec.Meta
	lim   ingest.Limits
	cache *ingest.PrefixCache
	batch ingest.Batch
}

func openNDJSON(l *lineScanner, o Options) (rowReader, error) {
	return openRecords(l, o, codec.ContentTypeJSON), nil
}

func openDynamo(l *lineScanner, o Options) (rowReader, error) {
	return openRecords(l, o, codec.ContentTypeDynamo), nil
}

func openRecords(l *lineScanner, o Options, contentType string) rowReader {
	return &recordReader{
		lines: l, lim: o.Limits, cache: newPrefixCache(o),
		meta: codec.Meta{Kind: codec.KindRequest, ContentType: contentType, Pool: o.Pool, Class: o.Class},
	}
}

func (n *recordReader) next(w *row) error {
	for {
		line, err := n.lines.next()
		if err != nil {
			return err
		}
		n.batch.Reset()
		codec.Decode(n.meta, line, n.lim, &n.batch)
		switch {
		case len(n.batch.Requests) == 1:
			*w = n.row(n.batch.Requests[0])
			return nil
		case len(n.batch.Refused) > 0:
			return badRow(fmt.Sprintf("%s: %s", n.batch.Refused[0].Reason, n.batch.Refused[0].Detail))
		case n.batch.Ignored == 0:
			return badRow("the line holds no request: one forewarm.request.v1 object a line")
		}
	}
}

// row converts a record, with the cached tokens of its blocks.
func (n *recordReader) row(r ingest.Request) row {
	hit := int64(n.cache.Hit(r.Blocks)) * r.BlockTokens
	if r.CachedTokens == ingest.Unknown && len(r.Blocks) > 0 {
		r.CachedTokens = min(hit, r.PromptTokens)
	}
	r.Blocks, r.BlockTokens = nil, 0
	return row{at: knownAt(&r).UnixNano(), class: r.Class, record: &r}
}

// DefaultPrefixBlocks is the default size of the prefix cache: 2²⁰ blocks are more than public traces fill, so it acts
// as unbounded.
const DefaultPrefixBlocks = 1 << 20

// newPrefixCache creates the cache that converts block hashes to cached tokens.
func newPrefixCache(o Options) *ingest.PrefixCache {
	return ingest.NewPrefixCache(cmp.Or(max(o.PrefixBlocks, 0), DefaultPrefixBlocks))
}

// prefixNote describes how cached tokens were computed.
func prefixNote(o Options) string {
	if o.PrefixBlocks > 0 {
		return fmt.Sprintf("cached tokens that no row tells are the hits of a cache of %d blocks", o.PrefixBlocks)
	}
	return fmt.Sprintf("cached tokens that no row tells are the hits of a cache that forgets nothing (%d blocks), the most that any could be: bound it by -prefix-blocks", DefaultPrefixBlocks)
}
