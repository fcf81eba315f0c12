package capacity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units of memory, in bytes; the longest suffix first.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// maxSize bounds a memory size: 1 PiB.
const maxSize = 1 << 50

// ParseSize reads a memory size such as "80GiB", "141 GB" or "512MiB" into bytes. A unit is required, because a plain
// number could mean GiB or bytes.
func ParseSize(s string) (bytes float64, err error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(strings.TrimSpace(s), u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(v) || v < 0 || v*u.bytes > maxSize {
			return 0, fmt.Errorf("%q is no memory size from 0 to 1024TiB; write it like 80GiB", s)
		}
		return v * u.bytes, nil
	}
	return 0, fmt.Errorf("%q has no unit of memory; write it like 80GiB", s)
}

// short is a duration without its zero units: 6m, not 6m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
