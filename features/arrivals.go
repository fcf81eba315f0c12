package features

import (
	"errors"
	"fmt"

	"github.com/forewarm/forewarm/ingest"
)

// maxArrivals bounds the requests between their arrival and their end that are remembered, over all pools; the oldest
// go first. A request that was forgotten is counted a second time at its end, if its minute is still open.
const maxArrivals = 1 << 18

// arrivals remembers which requests have been counted at their arrival, so that the record at their end does not count
// them again, and the other way round when the two come out of order.
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
	Minute int64 // in which its arrival was counted
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
		h = (h ^ 0xff) * prime // no byte of UTF-8
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

// add remembers a request that find did not know, and says whether another one had to be forgotten that was still
// needed.
func (t *arrivals) add(e arrival) (evicted bool) {
	if len(t.queue)-t.head >= t.capacity {
		evicted = !t.pop().Ended
	}
	t.at[e.Hash] = t.base + len(t.queue)
	t.queue = append(t.queue, e)
	return evicted
}

// forget drops from the old end what ended before the open span began; a late arrival record is refused by then. What
// has not ended within a day will not be waited for either.
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

// release lets go of classes that are forgotten.
func (t *arrivals) release() {
	for i := range t.queue[t.head:] {
		if e := &t.queue[t.head+i]; e.class != nil && e.class.gone {
			e.class = nil
		}
	}
}

// snapshot names classes by their number.
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
		s.Classes = make([]uint32, len(s.Hashes)) // of a state that did not keep them
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

// numbered are the classes of all pools, as the State lists them.
func (a *Aggregator) numbered() (classes []*class) {
	for _, p := range a.pools {
		classes = append(classes, p.classes...)
	}
	return classes
}
