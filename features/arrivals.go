package features

import (
	"errors"
	"fmt"

	"github.com/forewarm/forewarm/ingest"
)

// maxArrivals bounds the remembered requests in flight, over all pools; the oldest is evicted first. An evicted request
// is counted a second time at its end, if its minute is still open.
const maxArrivals = 1 << 18

// arrivals remembers the requests that were counted, so that the records of arrival and end, in either order, count a
// request once.
type arrivals struct {
	capacity int
	queue    []arrival // oldest first, from index head
	head     int
	base     int // position of queue[0] since the beginning
	at       map[uint64]int
}

// arrival is one request, by hash.
type arrival struct {
	Hash   uint64
	Minute int64 // minute of arrival
	Ended  bool
	Prompt bool // prompt tokens were counted
	Cached bool // cached tokens were counted
	class  *class
}

func newArrivals(capacity int) arrivals {
	return arrivals{capacity: capacity, at: make(map[uint64]int)}
}

// arrivalHash is FNV-1a over pool, id and attempt. Two requests in flight at once share a hash with a probability of
// about 10⁻⁹ when the table is full; the second would then not be counted.
func arrivalHash(r *ingest.Request) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, s := range [...]string{r.Pool, r.ID} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
		h = (h ^ 0xff) * prime // 0xff is not in UTF-8
	}
	return (h ^ uint64(r.Attempt)) * prime
}

// find returns the request, valid until the next call, or nil.
func (t *arrivals) find(hash uint64) *arrival {
	pos, ok := t.at[hash]
	if !ok {
		return nil
	}
	return &t.queue[pos-t.base]
}

// add remembers a request that find does not have. evicted reports that a request in flight was evicted for it.
func (t *arrivals) add(e arrival) (evicted bool) {
	if len(t.queue)-t.head >= t.capacity {
		evicted = !t.pop().Ended
	}
	t.at[e.Hash] = t.base + len(t.queue)
	t.queue = append(t.queue, e)
	return evicted
}

// forget drops the oldest requests that ended before the open span: their late arrival records are refused. Requests
// without an end are dropped after a day.
func (t *arrivals) forget(oldest int64) {
	for t.head < len(t.queue) {
		e := &t.queue[t.head]
		if e.Minute >= oldest || !e.Ended && e.Minute >= oldest-maxLifeMinutes {
			break
		}
		t.pop()
	}
}

func (t *arrivals) pop() arrival {
	e := t.queue[t.head]
	delete(t.at, e.Hash)
	t.head++
	if t.head > len(t.queue)/2 {
		n := copy(t.queue, t.queue[t.head:])
		t.queue = t.queue[:n]
		t.base += t.head
		t.head = 0
	}
	return e
}

// release drops references to evicted classes.
func (t *arrivals) release() {
	for i := range t.queue[t.head:] {
		if e := &t.queue[t.head+i]; e.class != nil && e.class.evicted {
			e.class = nil
		}
	}
}

// snapshot refers to classes by number.
func (t *arrivals) snapshot(number map[*class]uint32) *ArrivalSnapshot {
	s := &ArrivalSnapshot{}
	for _, e := range t.queue[t.head:] {
		var flags byte
		for bit, set := range [...]bool{e.Ended, e.Prompt, e.Cached} {
			if set {
				flags |= 1 << bit
			}
		}
		s.Hashes, s.Minutes, s.Flags = append(s.Hashes, e.Hash), append(s.Minutes, e.Minute), append(s.Flags, flags)
		class := uint32(0)
		if e.class != nil {
			class = number[e.class] + 1
		}
		s.Classes = append(s.Classes, class)
	}
	return s
}

func (t *arrivals) restore(s ArrivalSnapshot, classes []*class) error {
	if s.Classes == nil {
		s.Classes = make([]uint32, len(s.Hashes))
	}
	if len(s.Minutes) != len(s.Hashes) || len(s.Flags) != len(s.Hashes) || len(s.Classes) != len(s.Hashes) || len(s.Hashes) > t.capacity {
		return errors.New("the columns of arrivals differ in length, or are too long")
	}
	for i, hash := range s.Hashes {
		if t.find(hash) != nil {
			return fmt.Errorf("arrival %x comes twice", hash)
		}
		var c *class
		if n := int64(s.Classes[i]); n > int64(len(classes)) {
			return fmt.Errorf("class %d of arrival %x is not known", n, hash)
		} else if n > 0 {
			c = classes[n-1]
		}
		f := s.Flags[i]
		t.add(arrival{Hash: hash, Minute: s.Minutes[i], Ended: f&1 != 0, Prompt: f&2 != 0, Cached: f&4 != 0, class: c})
	}
	return nil
}

// numbered lists the classes of all pools in the order of State.
func (a *Aggregator) numbered() (classes []*class) {
	for _, p := range a.pools {
		classes = append(classes, p.classes...)
	}
	return classes
}
