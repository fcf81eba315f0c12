package features

import "strings"

// OverflowClass collects the classes of a pool beyond Config.MaxClasses.
const OverflowClass = "_other"

// TotalClass is the class name of the pool total in outputs.
const TotalClass = "*"

// Key names one series of windows.
type Key struct {
	Pool, Class string
}

// Compare orders keys by pool, then class.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Pool, o.Pool); c != 0 {
		return c
	}
	return strings.Compare(k.Class, o.Class)
}

// String gives pool/class.
func (k Key) String() string { return k.Pool + "/" + k.Class }
