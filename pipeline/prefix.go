package pipeline

import (
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// prefix estimates the cached tokens of requests that report block hashes instead. The zero value is empty.
type prefix struct {
	cache       *ingest.PrefixCache
	blockTokens int64 // of the newest request with blocks
}

// prefixState is a prefix in a snapshot.
type prefixState struct {
	Cache       ingest.PrefixState `cbor:"1,keyasint"`
	BlockTokens int64              `cbor:"2,keyasint"`
}

// setCachedTokens sets r.CachedTokens if it is unknown and r has blocks; it remembers at most limit blocks. Only served
// requests count, because an arrival is recorded before its own blocks are cached.
func (p *prefix) setCachedTokens(r *ingest.Request, limit int) {
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

// resize bounds the remembered blocks by the KV caches of the ready replicas, if both are known, and by limit.
func (p *prefix) resize(s *features.PoolState, pool *capacity.Pool, limit int) {
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

// restore a snapshot, under a limit that may have changed.
func (p *prefix) restore(s *prefixState, limit int) {
	if s == nil || limit == 0 {
		return
	}
	p.cache, p.blockTokens = ingest.RestorePrefixCache(s.Cache), max(1, s.BlockTokens)
	p.cache.Resize(min(limit, s.Cache.Capacity))
}
