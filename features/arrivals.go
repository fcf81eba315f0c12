package features

import "github.com/forewarm/forewarm/ingest"

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
	_ struct{} `cbor:",toarray"`

	Hash   uint64
	Minute int64 // minute of arrival
	Class  string
	Ended  bool
	Prompt bool // prompt tokens were counted
	Cached bool // cached tokens were counted
}

func newArrivals(capacity int) arrivals {
	// The queue is never nil, so that an empty one has the same bytes in every snapshot.
	return arrivals{capacity: capacity, queue: []arrival{}, at: make(map[uint64]int)}
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
