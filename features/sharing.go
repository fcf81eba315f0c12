package features

import (
	"math"
	"slices"

	"github.com/forewarm/forewarm/ingest"
)

const (
	sharingMinutes    = 32   // of evidence, the newest
	minSharingMinutes = 15   // minutes, before it is believed
	maxSharingSpread  = 0.25 // interquartile range over median, at most
	maxSharingRatio   = 0.95 // a ratio above it is none
	sharingSlack      = 0.1  // of the ratio, below what the share of cached tokens explains: long requests weigh more
	minSharingTokens  = 1024 // held in a minute, at least, for a ratio to mean anything
	useGap            = 2 * minuteLength
)

// KVSharing compares the KV tokens that a pool's engines say they hold with those that its requests hold by themselves.
// Engines with a prefix cache keep blocks that several running requests begin with once, while occupancy, as the sum
// over requests, counts them for each.
type KVSharing struct {
	// Measured is the median over minutes of engines' tokens / requests' tokens, Upper the upper quartile, Spread the
	// interquartile range over the median; NaN without minutes.
	Measured, Upper, Spread float64
	// Least is the least that sharing can explain: the share of prompt tokens that were not cached, 1 when producers do
	// not report them.
	Least float64
	// Minutes of evidence, at most 32, the newest that settled with reports of every replica and times of most requests.
	Minutes int
}

// Ratio is what a request's tokens count for in the cache: in (0, 1], the upper quartile of what was measured. It is 1,
// as if nothing were shared, unless the evidence is good: a quarter of an hour of minutes that agree, in which sharing
// took no more than what is cached.
func (s *KVSharing) Ratio() float64 {
	if s.Minutes < minSharingMinutes || !(s.Spread <= maxSharingSpread) || !(s.Upper < maxSharingRatio) || !(s.Measured >= s.Least-sharingSlack) {
		return 1
	}
	return s.Upper
}

// Carries is the demand for a dimension that a capacity carries: more KV tokens than fit into the cache where requests
// share some, for demand counts those for each request; anything else as it is.
func (m *PoolMinute) Carries(dimension string, capacity float64) float64 {
	if dimension == DimKV {
		return capacity / m.KVSharing.Ratio()
	}
	return capacity
}

// engineUse is what engines reported of one minute.
type engineUse struct {
	Area    float64 `cbor:"1,keyasint,omitempty"` // token-seconds held
	Seconds float64 `cbor:"2,keyasint,omitempty"` // of replicas, that Area is of
	Serving float64 `cbor:"3,keyasint,omitempty"` // replicas, by the newest reports of the minute
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

// noteUse books what a replica held between two reports, in a straight line from one to the other.
func (a *Aggregator) noteUse(p *pool, before, now *ingest.Replica) {
	at := unixTimeOf(now.At)
	if m := (at - 1).minute(); a.holds(m) {
		p.coverage[a.slot(m)].use.Serving = float64(p.fleet.serving)
	}
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
		u := &p.coverage[a.slot(m)].use
		u.Seconds += span
		u.Area += span * (start + slope*(from.secondsTo(lower)+from.secondsTo(upper))/2)
	}
}

// heldMinute is what the requests of a pool held in one minute that settles, over its classes.
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

// sharing is the evidence of one pool: the ratios of the newest minutes.
type sharing struct {
	ratios [sharingMinutes]float32
	n      int // ever
}

// learn takes in a minute, unless the requests' occupancy is not known well, or not of all of them, or the engines' is
// not known for nine tenths of their time.
func (s *sharing) learn(h *heldMinute, turned float64, u *engineUse) {
	if h.sums > 0 || h.modelled > .1*h.timed || h.timed < minSharingTokens*seconds || h.known < .95*(h.attempts-turned) ||
		u.Serving == 0 || u.Seconds < .9*seconds*u.Serving {
		return
	}
	s.ratios[s.n%sharingMinutes] = float32(u.Area / u.Seconds * u.Serving * seconds / (h.timed + h.modelled))
	s.n++
}

// summary of the evidence; cached is the share of prompt tokens in the prefix cache.
func (s *sharing) summary(cached float64) KVSharing {
	out := KVSharing{Measured: math.NaN(), Upper: math.NaN(), Spread: math.NaN(), Least: 1, Minutes: min(s.n, sharingMinutes)}
	if cached >= 0 {
		out.Least = 1 - cached
	}
	if out.Minutes == 0 {
		return out
	}
	sorted := s.ratios
	v := sorted[:out.Minutes]
	slices.Sort(v)
	at := func(q float64) float64 { return float64(v[int(q*float64(len(v)-1)+.5)]) }
	out.Measured, out.Upper = at(.5), at(.75)
	out.Spread = (out.Upper - at(.25)) / out.Measured
	return out
}

// state lists the ratios, oldest first.
func (s *sharing) state() (ratios []float32) {
	for i := max(0, s.n-sharingMinutes); i < s.n; i++ {
		ratios = append(ratios, s.ratios[i%sharingMinutes])
	}
	return ratios
}

// restore takes up the newest of ratios.
func (s *sharing) restore(ratios []float32) {
	*s = sharing{}
	for _, r := range ratios {
		s.ratios[s.n%sharingMinutes] = r
		s.n++
	}
}
