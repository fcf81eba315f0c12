package backtest

// ordered is an element of a heap.
type ordered[T any] interface{ before(other T) bool }

var (
	_ ordered[*row]  = (*row)(nil)
	_ ordered[*call] = (*call)(nil)
)

// heap is a min-heap: no element comes before the first.
type heap[T ordered[T]] []T

// push adds an element. O(log n).
func (h *heap[T]) push(x T) {
	*h = append(*h, x)
	h.up(len(*h) - 1)
}

// remove removes element i. O(log n).
func (h *heap[T]) remove(i int) T {
	var none T
	s := *h
	n := len(s) - 1
	x := s[i]
	s[i], s[n] = s[n], none
	*h = s[:n]
	if i < n {
		h.up(i)
		h.down(i)
	}
	return x
}

func (h *heap[T]) up(i int) {
	for s := *h; i > 0 && s[i].before(s[(i-1)/2]); i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
}

func (h *heap[T]) down(i int) {
	for s := *h; ; {
		smallest := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(s); c++ {
			if s[c].before(s[smallest]) {
				smallest = c
			}
		}
		if smallest == i {
			return
		}
		s[i], s[smallest] = s[smallest], s[i]
		i = smallest
	}
}
