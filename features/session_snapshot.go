package features

import "errors"

// SessionSnapshot lists the sessions, the one that was silent longest first, in columns. Classes are numbered from
// zero through those of all pools as the State lists them; times are in nanoseconds.
type SessionSnapshot struct {
	IDs     []uint64 `cbor:"1,keyasint"`
	Classes []uint32 `cbor:"2,keyasint"`
	First   []int64  `cbor:"3,keyasint"`
	Last    []int64  `cbor:"4,keyasint"`
	Turns   []uint32 `cbor:"5,keyasint"`
	Initial []uint32 `cbor:"6,keyasint"`
	Context []uint32 `cbor:"7,keyasint"`
	Prompt  []uint32 `cbor:"8,keyasint"`
	Cached  []uint32 `cbor:"9,keyasint"`
	Newest  []int64  `cbor:"10,keyasint"`
	Ages    []byte   `cbor:"11,keyasint,omitempty"` // group, and 128 for one that took a turn since
}

const wokeFlag = 1 << 7

// numbered are the classes of all pools, as the State lists them.
func (a *Aggregator) numbered() (classes []*class) {
	for _, p := range a.pools {
		classes = append(classes, p.classes...)
	}
	return classes
}

// sessionSnapshot names classes by their number.
func sessionSnapshot(t *sessionTable, number map[*class]uint32) *SessionSnapshot {
	x := &SessionSnapshot{}
	for pos := t.oldest; pos != 0; {
		s := &t.entries[pos]
		pos = s.newer
		x.IDs, x.Classes = append(x.IDs, s.id), append(x.Classes, number[s.class])
		x.First, x.Last = append(x.First, int64(s.first)), append(x.Last, int64(s.last))
		x.Newest, x.Turns = append(x.Newest, int64(s.newest)), append(x.Turns, s.turns)
		x.Initial, x.Context = append(x.Initial, s.initial), append(x.Context, s.context)
		x.Prompt, x.Cached = append(x.Prompt, s.prompt), append(x.Cached, s.cached)
		age := s.age
		if s.woke {
			age |= wokeFlag
		}
		x.Ages = append(x.Ages, age)
	}
	return x
}

// restoreSessions takes up the sessions; the newest, when there may be fewer now.
func (a *Aggregator) restoreSessions(x *SessionSnapshot, classes []*class) error {
	for _, n := range [...]int{len(x.Classes), len(x.First), len(x.Last), len(x.Newest), len(x.Turns), len(x.Initial), len(x.Context), len(x.Prompt), len(x.Cached), len(x.Ages)} {
		if n != len(x.IDs) {
			return errors.New("the columns of sessions differ in length")
		}
	}
	for i, id := range x.IDs {
		if a.sessions.find(id) != nil || int64(x.Classes[i]) >= int64(len(classes)) || x.Ages[i]&^wokeFlag > ageNew {
			return errors.New("a session comes twice, or its age or class is not known")
		}
		s, _ := a.sessions.add(id)
		s.class = classes[x.Classes[i]]
		if s.class.sessions == nil {
			s.class.sessions = new(sessionAccount)
		}
		s.first, s.last, s.newest, s.turns = moment(x.First[i]), moment(x.Last[i]), moment(x.Newest[i]), x.Turns[i]
		s.initial, s.context, s.prompt, s.cached = x.Initial[i], x.Context[i], x.Prompt[i], x.Cached[i]
		s.age, s.woke = x.Ages[i]&^wokeFlag, x.Ages[i]&wokeFlag != 0
	}
	return nil
}
