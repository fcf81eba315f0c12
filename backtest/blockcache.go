package backtest

// DefaultPrefixBlocks is the size of the prefix cache when Options give none: 2²⁰ blocks are half a billion tokens,
// more than the traces in circulation fill, so that hits are those of an unbounded cache.
const DefaultPrefixBlocks = 1 << 20

// blockCache is a least-recently-used set of block hashes: a map into a ring-linked list over fixed slots. Memory is
// bounded by its size; each operation is O(1).
type blockCache struct {
	slots map[uint64]int32
	id    []uint64
	prev  []int32
	next  []int32 // slot 0 is the list's sentinel: next[0] is the newest, prev[0] the oldest
	bound int
}

func newBlockCache(bound int) *blockCache {
	if bound <= 0 {
		bound = DefaultPrefixBlocks
	}
	return &blockCache{slots: map[uint64]int32{}, id: make([]uint64, 1), prev: make([]int32, 1), next: make([]int32, 1), bound: bound}
}

// hit counts the leading blocks that are in the cache, then makes every block of ids the newest, the first one last, so
// that a prefix outlives what hangs on it.
func (c *blockCache) hit(ids []uint64) int {
	n := 0
	for n < len(ids) {
		if _, ok := c.slots[ids[n]]; !ok {
			break
		}
		n++
	}
	for i := len(ids) - 1; i >= 0; i-- {
		c.touch(ids[i])
	}
	return n
}

func (c *blockCache) touch(id uint64) {
	s, ok := c.slots[id]
	switch {
	case ok:
		c.unlink(s)
	case len(c.slots) < c.bound:
		s = int32(len(c.id))
		c.id, c.prev, c.next = append(c.id, id), append(c.prev, 0), append(c.next, 0)
	default:
		s = c.prev[0]
		delete(c.slots, c.id[s])
		c.unlink(s)
		c.id[s] = id
	}
	c.slots[id] = s
	c.prev[s], c.next[s] = 0, c.next[0]
	c.prev[c.next[0]] = s
	c.next[0] = s
}

func (c *blockCache) unlink(s int32) {
	c.next[c.prev[s]], c.prev[c.next[s]] = c.next[s], c.prev[s]
}
