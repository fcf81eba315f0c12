// Package prefetch asks the processor for memory that is going to be needed.
//
// What folding a request changes is in no cache of the processor when there are thousands of classes, and Go has no way of
// asking for it ahead that does not wait for it: a read whose result is not used holds up what comes after it once the
// processor's window of pending instructions is full. A prefetch does not, so that many waits overlap each other and the
// work before them.
//
// It changes nothing but time, and on processors that it has no instruction for it does nothing.
package prefetch

import "unsafe"

// Of asks for all that p points to, if it does.
func Of[T any](p *T) {
	if p != nil { // looking for an address that is not there takes long
		lines(unsafe.Pointer(p), unsafe.Sizeof(*p))
	}
}

// Slice asks for the elements of s.
func Slice[T any](s []T) {
	if len(s) > 0 {
		lines(unsafe.Pointer(unsafe.SliceData(s)), uintptr(len(s))*unsafe.Sizeof(s[0]))
	}
}
