package features

import (
	"math/bits"
	"unsafe"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/prefetch"
)

// alias is a class with its name as it came last: names that are decoded again and again are the same bytes in memory.
type alias struct {
	class   *class
	name    string
	newest  int32 // of its attempts in the backlog, or none
	waiting int32 // how many these are
}

// aliases find classes of a pool by where the bytes of their names lie, without a look at them: a hash table with linear
// probing of numbers of classes plus one. It may not know a name, and then says so.
type aliases struct {
	slots []uint32 // a power of two, 0 is free
	used  int
}

func place(name string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(name))) }

func (x *aliases) home(name string) int {
	return int(uint64(place(name)) * 0x9e3779b97f4a7c15 >> (65 - bits.Len(uint(len(x.slots)))))
}

// find is the number of the class of a name, none when it is not known by it.
func (x *aliases) find(classes []alias, name string) int32 {
	if len(x.slots) == 0 {
		return none
	}
	for i := x.home(name); x.slots[i] != 0; i = (i + 1) & (len(x.slots) - 1) {
		c := &classes[x.slots[i]-1]
		if place(c.name) == place(name) && len(c.name) == len(name) {
			return int32(x.slots[i] - 1)
		}
	}
	return none
}

// LookAhead asks for the memory in which the class of a request is going to be looked up. It changes nothing that shows.
func (a *Aggregator) LookAhead(r *ingest.Request) {
	if p := a.known(r.Pool); p != nil && len(p.aliases.slots) > 0 {
		prefetch.Of(&p.aliases.slots[p.aliases.home(r.Class)])
	}
}

// LookCloser asks for what LookAhead has led to, some time after it.
func (a *Aggregator) LookCloser(r *ingest.Request) {
	if p := a.known(r.Pool); p != nil && len(p.aliases.slots) > 0 {
		if slot := p.aliases.slots[p.aliases.home(r.Class)]; slot != 0 {
			prefetch.Of(&a.classes[slot-1])
		}
	}
}

// add makes a class known by a name. The ones that it had before are known no more.
func (x *aliases) add(classes []alias, c *class, name string) {
	classes[c.number].name = name
	if 2*(x.used+1) > len(x.slots) {
		x.rebuild(classes, c.pool)
	}
	x.put(c.number, name)
}

func (x *aliases) put(number int32, name string) {
	i := x.home(name)
	for x.slots[i] != 0 {
		if x.slots[i] == uint32(number)+1 {
			return
		}
		i = (i + 1) & (len(x.slots) - 1)
	}
	x.slots[i] = uint32(number) + 1
	x.used++
}

// rebuild forgets the names that are known no more.
func (x *aliases) rebuild(classes []alias, p *pool) {
	x.slots, x.used = make([]uint32, max(64, 1<<bits.Len(uint(4*len(p.classes))))), 0
	for i := range classes {
		if classes[i].class.pool == p {
			x.put(int32(i), classes[i].name)
		}
	}
}

// renumber numbers the classes that are left when some were forgotten.
func (a *Aggregator) renumber() {
	kept := a.classes[:0]
	for _, c := range a.classes {
		if !c.class.gone {
			c.class.number = int32(len(kept))
			kept = append(kept, c)
		}
	}
	clear(a.classes[len(kept):])
	a.classes = kept
	for _, p := range a.pools {
		p.aliases = aliases{}
	}
}
