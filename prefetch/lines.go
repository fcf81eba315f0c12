//go:build amd64 || arm64

package prefetch

import "unsafe"

// lines asks for the lines of memory that hold n bytes from p.
//
//go:noescape
func lines(p unsafe.Pointer, n uintptr)
