package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// definer returns the function that creates a pool from the keys of its definition, with the values of default_pool as
// defaults. A definition names no files, because only this daemon may have them. The files of default_pool are read
// once, here.
func (c *Config) definer() func(pool string, keys []byte) (capacity.Pool, error) {
	var base capacity.Config
	if c.DefaultPool != nil {
		base = *c.DefaultPool
	}
	files, _ := (&checker{}).files("", "", &base) // an unreadable file was reported with default_pool
	return func(pool string, keys []byte) (capacity.Pool, error) {
		d := newDecoder("definition")
		defined := base
		if err := d.document(keys, reflect.ValueOf(&defined).Elem()); err != nil {
			return capacity.Pool{}, err
		}
		if defined.Name != "" && defined.Name != pool {
			d.errs = append(d.errs, &Error{Source: d.source["name"], Key: "name", Value: show(defined.Name), Bound: "must be " + show(pool), Mend: "leave it out"})
		}
		for _, key := range slices.Sorted(maps.Keys(d.source)) {
			if isPath(key) {
				d.errs = append(d.errs, &Error{Source: d.source[key], Key: key, Bound: "must not name a file", Mend: "set it in default_pool, or list the pool under pools"})
			}
		}
		if len(d.errs) > 0 {
			return capacity.Pool{}, d.errs
		}
		defined.Name = pool
		in := &checker{source: d.source}
		p, ok := in.build(poolKey([]capacity.Config{defined}, 0), "", defined, files)
		if ok {
			c.checkLead(in, fmt.Sprintf("pools[%s]", pool), "", &p)
		}
		if len(in.errs) > 0 {
			return capacity.Pool{}, in.errs
		}
		return p, nil
	}
}
