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

// before orders calls by mark, ties by order of admission.
func (q *call) before(other *call) bool {
	return q.mark < other.mark || q.mark == other.mark && q.admitted < other.admitted
}
