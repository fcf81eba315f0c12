package features

import "math/bits"

// session is a conversation or agent run whose newest turn is not long ago.
type session struct {
	id          uint64 // of pool and session
	class       *class // of the newest turn
	first, last moment // begin of the first turn, end of the last as far as it is known
	newest      moment // begin of the newest turn
	turns       uint32
	// Tokens. The context of a turn is its prompt and output; prompt and cached are of the newest turn that reported both.
	initial, context, prompt, cached uint32

	older, newer uint32 // by when it was last heard of; positions, 0 is none

	age  uint8 // group at the end of the last minute, or ageNew
	woke bool  // took a turn since then
}

// sessionTable holds at most a given number of sessions, in the order in which they were last heard of. The one that
// was silent longest makes room for a new one. Everything costs O(1) and, once the table has its size, no allocation:
// sessions are linked among themselves and found by an open-addressing index. 80 bytes a session.
type sessionTable struct {
	capacity       int
	entries        []session // from position 1; free ones are linked by older
	free           uint32
	count          int
	oldest, newest uint32
	index          []uint32 // positions by hash, 0 is empty; a power of two, at most half full
}

func newSessionTable(capacity int) sessionTable {
	return sessionTable{capacity: capacity, entries: make([]session, 1)}
}

// home is where the search for an id begins: by its highest bits after a multiplication (Fibonacci hashing), for ids
// are only as well mixed as their producers made them.
func (t *sessionTable) home(id uint64) uint32 {
	return uint32(id * 0x9e3779b97f4a7c15 >> (65 - bits.Len(uint(len(t.index)))))
}

func (t *sessionTable) mask() uint32 { return uint32(len(t.index) - 1) }

// find returns a session, valid until the next add, or nil.
func (t *sessionTable) find(id uint64) *session {
	if len(t.index) == 0 {
		return nil
	}
	for i := t.home(id); t.index[i] != 0; i = (i + 1) & t.mask() {
		if s := &t.entries[t.index[i]]; s.id == id {
			return s
		}
	}
	return nil
}

// touch puts the session at the newest end.
func (t *sessionTable) touch(s *session) {
	pos := t.position(s)
	if t.newest == pos {
		return
	}
	t.unlink(s)
	t.link(pos)
}

// position is that of a session in entries: the neighbour's link knows it.
func (t *sessionTable) position(s *session) uint32 {
	switch {
	case s.newer != 0:
		return t.entries[s.newer].older
	default:
		return t.newest
	}
}

// add makes a session that find did not know, the newest; evicted says that the oldest was forgotten for it.
func (t *sessionTable) add(id uint64) (s *session, evicted bool) {
	if t.count >= t.capacity {
		t.remove(&t.entries[t.oldest])
		evicted = true
	}
	pos := t.free
	if pos != 0 {
		t.free = t.entries[pos].older
	} else {
		pos = uint32(len(t.entries))
		t.entries = append(t.entries, session{})
	}
	t.entries[pos] = session{id: id}
	t.count++
	if 2*t.count > len(t.index) {
		t.grow()
	}
	t.enter(pos)
	t.link(pos)
	return &t.entries[pos], evicted
}

// remove forgets a session.
func (t *sessionTable) remove(s *session) {
	pos := t.position(s)
	t.unlink(s)
	gap := t.home(s.id)
	for t.index[gap] != pos {
		gap = (gap + 1) & t.mask()
	}
	for i := (gap + 1) & t.mask(); t.index[i] != 0; i = (i + 1) & t.mask() { // close the gap
		if home := t.home(t.entries[t.index[i]].id); (i-home)&t.mask() >= (i-gap)&t.mask() {
			t.index[gap] = t.index[i]
			gap = i
		}
	}
	t.index[gap] = 0
	*s = session{older: t.free}
	t.free = pos
	t.count--
}

func (t *sessionTable) link(pos uint32) {
	s := &t.entries[pos]
	s.older, s.newer = t.newest, 0
	if t.newest != 0 {
		t.entries[t.newest].newer = pos
	} else {
		t.oldest = pos
	}
	t.newest = pos
}

func (t *sessionTable) unlink(s *session) {
	if s.older != 0 {
		t.entries[s.older].newer = s.newer
	} else {
		t.oldest = s.newer
	}
	if s.newer != 0 {
		t.entries[s.newer].older = s.older
	} else {
		t.newest = s.older
	}
}

func (t *sessionTable) enter(pos uint32) {
	i := t.home(t.entries[pos].id)
	for t.index[i] != 0 {
		i = (i + 1) & t.mask()
	}
	t.index[i] = pos
}

// grow doubles the index. Sessions are entered oldest first; where they lie shows in no result.
func (t *sessionTable) grow() {
	t.index = make([]uint32, max(16, 2*len(t.index)))
	for pos := t.oldest; pos != 0; pos = t.entries[pos].newer {
		t.enter(pos)
	}
}
