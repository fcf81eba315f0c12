package backtest

import stdheap "container/heap"

// ordered is an element of a heap.
type ordered[T any] interface{ before(other T) bool }

// heap is a min-heap: no element comes before the first.
type heap[T ordered[T]] []T

// push adds an element. O(log n).
func (h *heap[T]) push(x T) { stdheap.Push(h, x) }

// remove removes element i. O(log n).
func (h *heap[T]) remove(i int) T { return stdheap.Remove(h, i).(T) }

// Len, Less, Swap, Push and Pop are for container/heap.
func (h heap[T]) Len() int           { return len(h) }
func (h heap[T]) Less(i, j int) bool { return h[i].before(h[j]) }
func (h heap[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heap[T]) Push(x any)        { *h = append(*h, x.(T)) }

func (h *heap[T]) Pop() any {
	var none T
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = none
	*h = (*h)[:last]
	return x
}
