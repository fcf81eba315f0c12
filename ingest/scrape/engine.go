package scrape

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

// engine is one kind of server that exposes metrics.
type engine struct {
	name    string
	anchors []string            // metrics that every rank has; without one of them it is not this engine
	labels  []string            // that distinguish ranks
	keep    func(s sample) bool // selects the series of the anchors that are of ranks; nil for all
	workers bool                // ranks are workers elsewhere, with names of their own, and not parts of the target
	read    func(r rank, to *ingest.Replica)
}

// engines lists every engine, in the order in which they are looked for. Those with workers come last: their metrics
// count only if the target has none of an engine of its own.
var engines = [...]engine{vllm, sglang, trtllm, triton, dynamo, epp, inferencePool}

// Auto finds the engine out by its metrics.
const Auto = "auto"

// Engines lists what a job's engine may be.
func Engines() []string {
	names := []string{Auto}
	for i := range engines {
		names = append(names, engines[i].name)
	}
	return names
}

// maxRanks bounds the replicas of one target.
const maxRanks = 1024

// find gives the wanted engine and its ranks; with [Auto] the first of engines that is there.
func (e exposition) find(wanted string) (*engine, []rank, error) {
	for i := range engines {
		g := &engines[i]
		if wanted != Auto && wanted != g.name {
			continue
		}
		switch ranks := e.ranks(g); {
		case len(ranks) > maxRanks:
			return nil, nil, &failure{reasonTooLarge, fmt.Errorf("%d engines in one answer, the limit is %d", len(ranks), maxRanks)}
		case len(ranks) > 0:
			return g, ranks, nil
		}
	}
	if wanted != Auto {
		return nil, nil, &failure{reasonNoEngine, fmt.Errorf("no metrics of %s", wanted)}
	}
	return nil, nil, &failure{reasonNoEngine, fmt.Errorf("no metrics of %s: is the path right, and are metrics on?", strings.Join(Engines()[1:], ", "))}
}

// replicas gives the replicas of a target. elsewhere is true when they are workers elsewhere. The caller sets pool,
// time and start.
func (e exposition) replicas(target, wanted string) (out []ingest.Replica, elsewhere bool, err error) {
	g, ranks, err := e.find(wanted)
	if err != nil {
		return nil, false, err
	}
	for _, r := range ranks {
		replica := unknown(target, ingest.ReplicaReady)
		switch name := r.name(); {
		case g.workers:
			replica.Name = cmp.Or(name, target) // its series may have lost their labels on the way
		case len(ranks) > 1:
			replica.Name = target + "/" + name
		}
		g.read(r, &replica)
		out = append(out, replica)
	}
	return out, g.workers, nil
}

// setPrefix sets the counters of prefix reuse, if both are known and there are not more hits than queries.
func setPrefix(to *ingest.Replica, hits, queries float64) {
	if hits <= queries {
		to.PrefixHitsTotal, to.PrefixQueryTotal = total(hits), total(queries)
	}
	if to.PrefixHitsTotal < 0 || to.PrefixQueryTotal < 0 {
		to.PrefixHitsTotal, to.PrefixQueryTotal = ingest.Unknown, ingest.Unknown
	}
}
