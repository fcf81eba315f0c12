package sketch

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// fewCounters are found faster by looking at each than by an index.
const fewCounters = 8

// index finds counters by name: a hash table with linear probing. A slot holds the low half of the name's hash, whose
// lowest bits are its home, over the position of the counter plus one; zero is empty. It is nil for few counters.
type index []uint32

func tagOf(name string) uint32 { return uint32(xxhash.Sum64String(name)) & 0xffff }

// find is the position of a name's counter, −1 when it has none.
func (x index) find(counters []Count, name string) int {
	if x == nil {
		for pos := range counters {
			if counters[pos].Name == name {
				return pos
			}
		}
		return -1
	}
	tag, mask := tagOf(name), uint32(len(x)-1)
	for i := tag & mask; x[i] != 0; i = (i + 1) & mask {
		if pos := int(x[i]&0xffff) - 1; x[i]>>16 == tag && counters[pos].Name == name {
			return pos
		}
	}
	return -1
}

// add enters the counter at pos, making a table for all when there is none that is large enough.
func (x *index) add(counters []Count, pos int) {
	if len(counters) <= fewCounters {
		return
	}
	if 4*len(counters) > 3*len(*x) {
		size := 2 * fewCounters
		for 4*len(counters) > 3*size {
			size *= 2
		}
		*x = make(index, size)
		for p := range counters {
			x.put(counters, p)
		}
		return
	}
	x.put(counters, pos)
}

func (x *index) put(counters []Count, pos int) {
	tag, mask := tagOf(counters[pos].Name), uint32(len(*x)-1)
	i := tag & mask
	for (*x)[i] != 0 {
		i = (i + 1) & mask
	}
	(*x)[i] = tag<<16 | uint32(pos+1)
}

// remove takes out the counter at pos and closes the gap (Knuth, The Art of Computer Programming 3, 6.4, algorithm R).
func (x index) remove(counters []Count, pos int) {
	if x == nil {
		return
	}
	tag, mask := tagOf(counters[pos].Name), uint32(len(x)-1)
	gap := tag & mask
	for x[gap] != tag<<16|uint32(pos+1) {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; x[i] != 0; i = (i + 1) & mask {
		if home := x[i] >> 16 & mask; (i-home)&mask >= (i-gap)&mask {
			x[gap] = x[i]
			gap = i
		}
	}
	x[gap] = 0
}

// lightest is the position of the counter that is last by order; it ends up at the root of the heap.
func (t *TopK) lightest() int {
	if t.heap == nil {
		t.heap = make([]leaf, len(t.counters))
		for pos := range t.counters {
			t.heap[pos] = leaf{t.counters[pos].Weight, pos}
		}
		slices.SortFunc(t.heap, func(a, b leaf) int { return t.compare(a, b) })
	}
	for {
		root := &t.heap[0]
		weight := t.counters[root.pos].Weight
		if root.key == weight {
			return root.pos
		}
		root.key = weight
		t.down(0)
	}
}

// compare puts the lightest leaf first, in the reverse of order.
func (t *TopK) compare(a, b leaf) int {
	return order(Count{Name: t.counters[b.pos].Name, Weight: b.key}, Count{Name: t.counters[a.pos].Name, Weight: a.key})
}

func (t *TopK) down(i int) {
	h := t.heap
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].key < h[first].key || h[child].key == h[first].key && t.compare(h[child], h[first]) < 0 {
				first = child
			}
		}
		if first == i {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}
