package ingest

import "encoding/binary"

// requestReader reads the members of a request in the form that they usually have, at half the cost: names in the order
// of the record before, texts of printable ASCII without escapes, times as milliseconds, counts without sign or
// fraction. What has another form it leaves as it is, to be read by the general rules; so it refuses nothing.
type requestReader struct {
	at       *Request // the one at hand
	attempt  int64
	key      requestKey // of the member at hand
	previous requestKey // before it; keyOther before the first
	follows  [keyOther + 1]requestKey
	// recent are labels as they came last, which most often come again.
	recent [keyReplica + 1]string
}

// takeLabel takes a label in the usual form.
func (d *decoder) takeLabel(r *requestReader, text []byte) {
	switch k := r.key; {
	case k == keyID:
		r.at.ID = d.texts.of(text)
	case k == keyClass || k == keyTenant || k == keyReplica:
		*k.label(r.at) = d.names.of(text)
	default:
		if r.recent[k] != string(text) {
			r.recent[k] = d.names.of(text)
		}
		*k.label(r.at) = r.recent[k]
	}
}

// nameWords are a quoted member name and the colon after it, as words that are compared under a mask.
type nameWords struct {
	words, masks [nameBytes / 8]uint64
	size         int
}

const nameBytes = 24

var requestNameWords = func() (all [keyOther]nameWords) {
	for k, name := range requestKeyNames {
		var text, mask [nameBytes]byte
		size := copy(text[:], `"`+name+`":`)
		for i := range size {
			mask[i] = 0xff
		}
		for i := range all[k].words {
			all[k].words[i], all[k].masks[i] = binary.LittleEndian.Uint64(text[8*i:]), binary.LittleEndian.Uint64(mask[8*i:])
		}
		all[k].size = size
	}
	return all
}()

// expected says whether the name comes next that followed the previous one in an earlier record, and then goes on to its
// value.
func (r *requestReader) expected(s *scanner) bool {
	k := r.follows[r.previous]
	if k >= keyOther || len(s.data)-s.at < nameBytes {
		return false
	}
	n, next := &requestNameWords[k], s.data[s.at:s.at+nameBytes]
	differ := (binary.LittleEndian.Uint64(next)^n.words[0])&n.masks[0] |
		(binary.LittleEndian.Uint64(next[8:])^n.words[1])&n.masks[1] |
		(binary.LittleEndian.Uint64(next[16:])^n.words[2])&n.masks[2]
	if differ != 0 {
		return false
	}
	r.key, r.previous = k, k
	if s.at += n.size; s.next() == ' ' {
		s.at++
	}
	return true
}

// learn notes the name at hand, which was not the expected one.
func (r *requestReader) learn(k requestKey) {
	r.follows[r.previous] = k
	r.key, r.previous = k, k
}

// usualValue takes the value that comes next, if it has the usual form.
func (d *decoder) usualValue(s *scanner, r *requestReader) bool {
	start := s.at
	switch k := r.key; {
	case k <= keyReplica:
		if text, ok := s.plainText(); ok && len(text) <= d.limits.LabelBytes {
			d.takeLabel(r, text)
			return true
		}
	case k <= keyFinishedAt:
		if t, ok := s.usualTime(); ok && !t.Before(earliest) && t.Before(latest) {
			*k.time(r.at) = t
			return true
		}
	case k <= keyAttempt:
		if n, ok := s.whole(); ok && n <= d.limits.Tokens {
			*k.count(r) = n
			return true
		}
	case k == keyPhase:
		if i, ok := s.oneOf(phaseNames[:]); ok {
			r.at.Phase = Phase(i)
			return true
		}
	case k == keyStatus:
		if i, ok := s.oneOf(statusNames[:]); ok {
			r.at.Status = Status(i)
			return true
		}
	case k == keySessionHash:
		if hash, ok := s.hash(); ok {
			r.at.Session = hash
			return true
		}
	}
	s.at = start
	return false
}
