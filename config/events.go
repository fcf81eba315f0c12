package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// events returns the valid events of the calendar; k gets the errors of the others.
func (c *Config) events(k *checker) (all []forecaster.Event) {
	if len(c.Events) > forecaster.MaxEvents {
		k.fail("events", len(c.Events), fmt.Sprintf("must be at most %d", forecaster.MaxEvents), "remove what is over")
		return nil
	}
	seen := map[[2]string]bool{}
	for i := range c.Events {
		x := &c.Events[i]
		place := fmt.Sprintf("events[%d]", i)
		zone, known := c.zone(x.Pool)
		e, err := forecaster.NewEvent(*x, zone)
		switch {
		case err != nil:
			leaf, bound, _ := strings.Cut(err.Error(), ": ")
			k.failAt(place+"."+leaf, place+"."+leaf, nil, bound, "")
		case !known:
			k.fail(place+".pool", x.Pool, "must be one of the pools", "list the pool, or correct its name")
		case seen[[2]string{x.Pool, x.Name}]:
			k.fail(place+".name", x.Name, "must be unique in its pool, for what is learned of an event is kept by its name", "rename one of them")
		default:
			all = append(all, e)
		}
		seen[[2]string{x.Pool, x.Name}] = true
	}
	return all
}

// zone returns the time zone of a pool, and whether it is served. An invalid zone is reported with the pool.
func (c *Config) zone(pool string) (*time.Location, bool) {
	i := slices.IndexFunc(c.Pools, func(p capacity.Config) bool { return p.Name == pool })
	var name string
	switch {
	case i >= 0:
		name = c.Pools[i].Timezone
	case c.DefaultPool != nil:
		name = c.DefaultPool.Timezone
	default:
		return time.UTC, false
	}
	if zone, err := time.LoadLocation(name); err == nil {
		return zone, true
	}
	return time.UTC, true
}
