package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/units"
)

// gpuGiB is the memory of known GPUs as a process sees it and engines print it at start: without the memory of error
// correction (in-band ECC takes a sixteenth of GDDR6) and of the driver.
var gpuGiB = map[string]float64{
	"t4":           14.6,
	"l4":           22.0,
	"a10g":         22.0,
	"rtx-3090":     23.6,
	"rtx-4090":     23.5,
	"rtx-5090":     31.4,
	"a100-40g":     39.4,
	"l40s":         44.4,
	"rtx-6000-ada": 47.4,
	"a100-80g":     79.2,
	"h100-80g":     79.2,
	"h100-nvl":     93.0,
	"h20-96g":      95.1,
	"h200-141g":    139.8,
	"b200-180g":    178.3,
	"b300-288g":    275.0,
	"mi300x-192g":  191.9,
	"mi325x-256g":  255.9,
	"mi355x-288g":  287.9,
}

// gpuMemory is the memory of one GPU in bytes: of a name in gpuGiB, or a size such as 80GiB.
func gpuMemory(nameOrSize string) (bytes float64, err error) {
	if known, ok := gpuGiB[strings.ToLower(nameOrSize)]; ok {
		return known * gib, nil
	}
	if bytes, err = parseSize(nameOrSize); err == nil && bytes > 0 {
		return bytes, nil
	}
	return 0, fmt.Errorf("%q is no GPU known by name (%s) and no size such as 80GiB",
		nameOrSize, strings.Join(slices.Sorted(maps.Keys(gpuGiB)), ", "))
}

// maxSize bounds a memory size: 1 PiB.
const maxSize = 1 << 50

// parseSize reads a memory size such as "80GiB", "141 GB" or "512MiB" into bytes. A unit is required, because a plain
// number could mean GiB or bytes.
func parseSize(s string) (bytes float64, err error) {
	n, err := units.ParseStrictBytes(strings.NewReplacer(" ", "", "kB", "KB").Replace(s))
	if err != nil || n < 0 || n > maxSize {
		return 0, fmt.Errorf("%q is no memory size with a unit, from 0 to 1024TiB; write it like 80GiB", s)
	}
	return float64(n), nil
}
