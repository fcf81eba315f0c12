package features

// spare keeps what was given back for the next one who takes, at most about as many as are in use: the memory of a busy
// hour does not outlast it.
type spare[T any] struct {
	free []T
	used int
}

// keptSpares may always be kept.
const keptSpares = 64

// take gives what was given back last, or a fresh one.
func (s *spare[T]) take(fresh func() T) T {
	s.used++
	n := len(s.free)
	if n == 0 {
		return fresh()
	}
	var none T
	last := s.free[n-1]
	s.free[n-1], s.free = none, s.free[:n-1]
	return last
}

func (s *spare[T]) give(x T) {
	s.used--
	s.free = append(s.free, x)
}

// lose counts one that was taken and does not come back.
func (s *spare[T]) lose() { s.used-- }

// trim lets go of half of what is more than is in use.
func (s *spare[T]) trim() {
	n := len(s.free)
	if excess := n - s.used - keptSpares; excess > 0 {
		keep := n - (excess+1)/2
		clear(s.free[keep:])
		s.free = s.free[:keep]
	}
	if cap(s.free) > 4*(len(s.free)+keptSpares) {
		s.free = append([]T(nil), s.free...)
	}
}
