package backtest

import "slices"

// fifo is a queue on a slice; popped space is reclaimed when half of it is gone, so that push and pop are O(1)
// amortised.
type fifo[T comparable] struct {
	items []T
	from  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.from }

func (f *fifo[T]) push(x T) { f.items = append(f.items, x) }

func (f *fifo[T]) head() (x T, ok bool) {
	if f.len() == 0 {
		return x, false
	}
	return f.items[f.from], true
}

func (f *fifo[T]) pop() T {
	var zero T
	x := f.items[f.from]
	f.items[f.from] = zero
	f.from++
	if f.from >= 64 && 2*f.from >= len(f.items) {
		n := copy(f.items, f.items[f.from:])
		clear(f.items[n:])
		f.items, f.from = f.items[:n], 0
	}
	return x
}

// remove takes out one element. O(n).
func (f *fifo[T]) remove(x T) {
	if i := slices.Index(f.items[f.from:], x); i >= 0 {
		f.items = slices.Delete(f.items, f.from+i, f.from+i+1)
	}
}

// calls is a min-heap by mark, ties by order of admission.
type calls []*call

func (h calls) less(i, j int) bool {
	return h[i].mark < h[j].mark || h[i].mark == h[j].mark && h[i].admitted < h[j].admitted
}

func (h *calls) push(q *call) {
	*h = append(*h, q)
	h.up(len(*h) - 1)
}

// remove takes out element i. O(log n).
func (h *calls) remove(i int) *call {
	s := *h
	n := len(s) - 1
	q := s[i]
	s[i] = s[n]
	s[n] = nil
	*h = s[:n]
	if i < n {
		h.up(i)
		h.down(i)
	}
	return q
}

func (h *calls) up(i int) {
	s := *h
	for i > 0 && s.less(i, (i-1)/2) {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
		i = (i - 1) / 2
	}
}

func (h *calls) down(i int) {
	s := *h
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(s) && s.less(c, least) {
				least = c
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
