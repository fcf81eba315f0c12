package pipeline

import (
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// prefix estimates the cached tokens of a pool's requests that report the hashes of their blocks in place of them. The
// zero value has seen none.
type prefix struct {
	cache       *ingest.PrefixCache
	blockTokens int64 // of the newest request with blocks
}

// prefixState is a prefix as it is kept in a snapshot.
type prefixState struct {
	Cache       ingest.PrefixState `cbor:"1,keyasint"`
	BlockTokens int64              `cbor:"2,keyasint"`
}

// complete sets r.CachedTokens where that is unknown and the blocks tell, remembering at most limit of them. Only
// requests that were served count: the record of an arrival comes before its own blocks are cached.
func (p *prefix) complete(r *ingest.Request, limit int) {
	if len(r.Blocks) == 0 || r.BlockTokens <= 0 || limit == 0 || r.Phase != ingest.PhaseFinished && r.Phase != ingest.PhaseCancelled {
		return
	}
	if p.cache == nil {
		p.cache = ingest.NewPrefixCache(limit)
	}
	p.blockTokens = r.BlockTokens
	hit := int64(p.cache.Hit(r.Blocks)) * r.BlockTokens
	if r.CachedTokens == ingest.Unknown {
		r.CachedTokens = min(hit, r.PromptTokens)
	}
}

// fit bounds what is remembered by what the KV caches of the ready replicas hold, where both are known, and by limit.
func (p *prefix) fit(s *features.PoolState, pool *capacity.Pool, limit int) {
	if p.cache == nil {
		return
	}
	tokens := s.KVCapacityTokens
	if tokens <= 0 {
		tokens = pool.KVTokens
	}
	if tokens > 0 && s.Observed && s.Ready > 0 {
		limit = int(min(float64(limit), tokens*float64(s.Ready)/float64(p.blockTokens)))
	}
	p.cache.Resize(limit)
}

func (p *prefix) forgotten() uint64 {
	if p.cache == nil {
		return 0
	}
	return p.cache.Forgotten()
}

func (p *prefix) state() *prefixState {
	if p.cache == nil {
		return nil
	}
	return &prefixState{p.cache.State(), p.blockTokens}
}

// restore takes up a snapshot, under a limit that may have changed.
func (p *prefix) restore(s *prefixState, limit int) {
	if s == nil || limit == 0 {
		return
	}
	p.cache, p.blockTokens = ingest.RestorePrefixCache(s.Cache), max(1, s.BlockTokens)
	p.cache.Resize(min(limit, s.Cache.Capacity))
}
