package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// definer gives the function that makes a pool of the keys of its definition: they change those of default_pool, where there is
// one. A definition names no file, for only this daemon may have it; the files of default_pool are read here, once.
func (c *Config) definer() func(pool string, keys []byte) (capacity.Pool, error) {
	var base capacity.Config
	if c.DefaultPool != nil {
		base = *c.DefaultPool
	}
	files, _ := (&checker{}).files("", "", &base) // that they cannot be read was found with default_pool
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
