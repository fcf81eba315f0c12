package storage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// ErrNoDecision says that the journal has no such decision, or none any more.
var ErrNoDecision = errors.New("no such decision in the journal")

// errFound ends a reading that has what it wants.
var errFound = errors.New("found")

// Find looks a decision up, with those of its pool in the span after it. ref is an event's id (pool and generation), an
// event's evidence (pool@tick#sequence), or a pool, whose newest decision is meant. Cost: linear in the journal from the
// decision on, or in its last day for a pool.
func (j *Journal) Find(ref string, span time.Duration) (d alerting.Decision, after []alerting.Decision, err error) {
	last, ok := j.Last()
	if !ok {
		return d, nil, errors.New("the journal is empty: no decision was made yet in this data directory")
	}
	match, from := reference(ref, last.Tick)
	found, named := false, false
	err = j.Read(from, time.Unix(1<<40, 0), func(x *alerting.Decision) error {
		switch {
		case !found && match(x):
			d, found = *x, true
		case found && x.Tick.Sub(d.Tick) > span:
			return errFound
		case found && x.Pool == d.Pool:
			after = append(after, *x)
		case !found && x.Pool == ref:
			d, named = *x, true // the newest so far
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errFound):
		return d, nil, err
	case !found && !named:
		return d, nil, fmt.Errorf("%w: %q; give the id of an event such as chat-29500000, its evidence, or a pool's name for its newest decision", ErrNoDecision, ref)
	}
	return d, after, nil
}

// reference says which decision ref means unless it is a pool's name, and from which tick on to look.
func reference(ref string, last time.Time) (match func(*alerting.Decision) bool, from time.Time) {
	if i := strings.LastIndex(ref, "@"); i > 0 {
		tick, _, _ := strings.Cut(ref[i+1:], "#")
		if at, err := time.Parse(time.RFC3339, tick); err == nil {
			return func(x *alerting.Decision) bool { return x.Pool == ref[:i] && x.Tick.Equal(at) }, at
		}
	}
	if i := strings.LastIndex(ref, "-"); i > 0 {
		// A generation is at most the minute of its tick.
		if generation, err := strconv.ParseInt(ref[i+1:], 10, 64); err == nil && generation > 0 && generation <= last.Unix()/60 {
			return func(x *alerting.Decision) bool { return x.Publish && x.EventID() == ref }, time.Unix(generation*60, 0)
		}
	}
	return func(*alerting.Decision) bool { return false }, last.Add(-24 * time.Hour)
}
