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

// engines lists every engine, in the order in which they are looked for.
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

// replicas gives the replicas of a target: those of the wanted engine, or with [Auto] those of all engines in it. With
// [Auto], workers elsewhere count only where the target has no engine. elsewhere is true when the replicas are such
// workers. The caller sets pool, time and start.
func (e exposition) replicas(target, wanted string) (out []ingest.Replica, elsewhere bool, err error) {
	type found struct {
		engine *engine
		ranks  []rank
	}
	var all []found
	n := 0
	for i := range engines {
		g := &engines[i]
		if wanted != Auto && wanted != g.name || wanted == Auto && g.workers && n > 0 {
			continue
		}
		if ranks := e.ranks(g); len(ranks) > 0 {
			all, n = append(all, found{g, ranks}), n+len(ranks)
		}
	}
	switch {
	case n == 0 && wanted == Auto:
		return nil, false, &failure{reasonNoEngine, fmt.Errorf("no metrics of %s: is the path right, and are metrics on?", strings.Join(Engines()[1:], ", "))}
	case n == 0:
		return nil, false, &failure{reasonNoEngine, fmt.Errorf("no metrics of %s", wanted)}
	case n > maxRanks:
		return nil, false, &failure{reasonTooLarge, fmt.Errorf("%d engines in one answer, the limit is %d", n, maxRanks)}
	}
	for _, f := range all {
		for _, r := range f.ranks {
			replica := unknown(target, ingest.ReplicaReady)
			switch name := r.name(); {
			case f.engine.workers:
				replica.Name = cmp.Or(name, target) // its series may have lost their labels on the way
			case len(all) > 1:
				replica.Name = strings.TrimSuffix(target+"/"+f.engine.name+"-"+name, "-")
			case n > 1:
				replica.Name = target + "/" + name
			}
			f.engine.read(r, &replica)
			out = append(out, replica)
		}
	}
	return out, all[0].engine.workers, nil
}

// setPrefix sets the counters of prefix reuse, if both are known and make sense.
func setPrefix(to *ingest.Replica, hits, queries float64) {
	if hits <= queries {
		to.PrefixHitsTotal, to.PrefixQueryTotal = total(hits), total(queries)
	}
	if to.PrefixHitsTotal < 0 || to.PrefixQueryTotal < 0 {
		to.PrefixHitsTotal, to.PrefixQueryTotal = ingest.Unknown, ingest.Unknown
	}
}
