package features

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/ingest"
)

const (
	sharingMinutes    = 32   // newest minutes kept
	minSharingMinutes = 15   // minutes needed to use the ratio
	maxSharingSpread  = 0.25 // interquartile range over median
	maxSharingRatio   = 0.95 // from this ratio on nothing is shared
	sharingSlack      = 0.1  // tolerance below the smallest plausible ratio: long requests weigh more
	minSharingTokens  = 1024 // tokens held in a minute that gives a ratio
	useGap            = 2 * minuteLength
)

// Carries is the demand that a capacity of a dimension can serve. For KV it is larger than the capacity if requests
// share tokens, because demand counts shared tokens for each request.
func (m *PoolMinute) Carries(dimension string, capacity float64) float64 {
	if dimension == DimKV && m.KVRatio > 0 {
		return capacity / m.KVRatio
	}
	return capacity
}

// engineUse is the use of the KV cache in one minute, as engines report it.
type engineUse struct {
	Area    float64 `cbor:"1,keyasint,omitempty"` // token-seconds held
	Seconds float64 `cbor:"2,keyasint,omitempty"` // replica-seconds that Area covers
	Serving float64 `cbor:"3,keyasint,omitempty"` // serving replicas, from the newest reports of the minute
}

// usedTokens is the KV tokens that a replica holds; NaN when unknown.
func usedTokens(r *ingest.Replica) float64 {
	switch {
	case r.State != ingest.ReplicaReady && r.State != ingest.ReplicaDraining:
		return math.NaN()
	case r.KVUsedTokens >= 0:
		return float64(r.KVUsedTokens)
	case r.KVCapacityTokens > 0:
		return r.KVUsedRatio * float64(r.KVCapacityTokens)
	}
	return math.NaN()
}

// noteUse adds the tokens that a replica held between two reports, by linear interpolation.
func (a *Aggregator) noteUse(p *pool, before, now *ingest.Replica) {
	at := unixTimeOf(now.At)
	from := unixTimeOf(before.At)
	start, end := usedTokens(before), usedTokens(now)
	if math.IsNaN(start+end) || from == never || from >= at || at-from > useGap {
		return
	}
	slope := (end - start) / from.secondsTo(at)
	for m := from.minute(); m <= at.minute(); m++ {
		lower, upper := max(from, unixTime(m)*minuteLength), min(at, unixTime(m+1)*minuteLength)
		span := lower.secondsTo(upper)
		if span <= 0 || !a.holds(m) {
			continue
		}
		u := &p.Coverage.at(m).Use
		u.Seconds += span
		u.Area += span * (start + slope*(from.secondsTo(lower)+from.secondsTo(upper))/2)
	}
}

// heldMinute is the occupancy of a pool in one minute that settles, over its classes.
type heldMinute struct {
	timed, modelled       float64 // token-seconds
	attempts, known, sums float64
}

func (h *heldMinute) add(w *Window) {
	h.timed += w.KVTokenSeconds
	h.modelled += w.KVModelled
	h.attempts += w.Attempts
	h.known += w.KVKnown
	h.sums += w.Records - w.Attempts
}

// sharing compares the KV tokens that a pool's engines report with the sum over its requests, by the ratios of the
// newest minutes. Engines with a prefix cache keep blocks of a common prefix once; the sum counts them for each running
// request.
type sharing struct {
	Ratios [sharingMinutes]float32 `cbor:"1,keyasint"`
	N      int                     `cbor:"2,keyasint"` // number of ratios ever added
}

// learn adds a minute if the occupancy of nearly all requests is known well, and that of the engines for 90 % of the
// time.
func (s *sharing) learn(h *heldMinute, turned float64, u *engineUse) {
	if h.sums > 0 || h.modelled > .1*h.timed || h.timed < minSharingTokens*seconds || h.known < .95*(h.attempts-turned) ||
		u.Serving == 0 || u.Seconds < .9*seconds*u.Serving {
		return
	}
	s.Ratios[s.N%sharingMinutes] = float32(u.Area / u.Seconds * u.Serving * seconds / (h.timed + h.modelled))
	s.N++
}

// ratio is cache tokens per request token, in (0, 1]: the upper quartile of the minutes. It is 1 (nothing shared) without
// good evidence, which is at least 15 minutes that agree, with a median that the share of cached prompt tokens explains;
// cached is NaN when producers do not report them.
func (s *sharing) ratio(cached float64) float64 {
	n := min(s.N, sharingMinutes)
	if n < minSharingMinutes {
		return 1
	}
	least := 1.0 // that sharing can explain
	if cached >= 0 {
		least -= cached
	}
	sorted := s.Ratios
	v := sorted[:n]
	slices.Sort(v)
	quartile := func(q float64) float64 { return float64(v[int(q*float64(n-1)+.5)]) }
	lower, median, upper := quartile(.25), quartile(.5), quartile(.75)
	if !((upper-lower)/median <= maxSharingSpread) || !(upper < maxSharingRatio) || !(median >= least-sharingSlack) {
		return 1
	}
	return upper
}
