package capacity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// GPUType is a GPU with its memory by the data sheet and as a process sees it.
type GPUType struct {
	Name    string
	SheetGB float64 // memory by the vendor's data sheet
	// VisibleGiB is the memory available to a process, as engines print it at start: without the memory of error
	// correction (in-band ECC takes a sixteenth of GDDR6) and of the driver.
	VisibleGiB float64
}

// GPUTypes are the GPUs known by name: memory from the data sheets of NVIDIA and AMD.
var GPUTypes = []GPUType{
	{"t4", 16, 14.6},
	{"l4", 24, 22.0},
	{"a10g", 24, 22.0},
	{"rtx-3090", 24, 23.6},
	{"rtx-4090", 24, 23.5},
	{"rtx-5090", 32, 31.4},
	{"a100-40g", 40, 39.4},
	{"l40s", 48, 44.4},
	{"rtx-6000-ada", 48, 47.4},
	{"a100-80g", 80, 79.2},
	{"h100-80g", 80, 79.2},
	{"h100-nvl", 94, 93.0},
	{"h20-96g", 96, 95.1},
	{"h200-141g", 141, 139.8},
	{"b200-180g", 180, 178.3},
	{"b300-288g", 288, 275.0},
	{"mi300x-192g", 192, 191.9},
	{"mi325x-256g", 256, 255.9},
	{"mi355x-288g", 288, 287.9},
}

// GPUMemory is the memory of one GPU in bytes: of a name in GPUTypes, or a size such as 80GiB.
func GPUMemory(nameOrSize string) (bytes float64, err error) {
	wanted := strings.ToLower(nameOrSize)
	var names []string
	for _, g := range GPUTypes {
		if g.Name == wanted {
			return g.VisibleGiB * (1 << 30), nil
		}
		names = append(names, g.Name)
	}
	if bytes, err = ParseSize(nameOrSize); err == nil && bytes > 0 {
		return bytes, nil
	}
	return 0, fmt.Errorf("%q is no GPU known by name (%s) and no size such as 80GiB", nameOrSize, strings.Join(names, ", "))
}

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
