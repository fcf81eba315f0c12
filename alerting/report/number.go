package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/forewarm/forewarm/internal/value"
)

// unknown is the text of an unknown number.
const unknown = "–"

// percent shows a fraction: below ten percent with one decimal, above as whole percent.
func percent(n Number) string {
	p := 100 * float64(n)
	switch {
	case !n.Known():
		return unknown
	case p > 0 && p < .05:
		return "<0.1 %"
	case math.Abs(p) < 9.95:
		return strconv.FormatFloat(round(p, 1), 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(round(p, 0), 'f', 0, 64) + " %"
}

// shareText is percent that shows 100 % only for the whole.
func shareText(part, whole int) string {
	if s := percent(Number(part) / Number(whole)); part == whole || s != percent(1) {
		return s
	}
	return "more than 99 %"
}

// countText shows a count with three significant digits: 5,440, 7.46 million.
func countText(n Number) string {
	v := float64(n)
	if !n.Known() {
		return unknown
	}
	if v != 0 {
		scale := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
		v = math.Round(v/scale) * scale
	}
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}} {
		if math.Abs(v) >= unit.size {
			return strconv.FormatFloat(v/unit.size, 'g', 3, 64) + " " + unit.name
		}
	}
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f,%03.0f", math.Trunc(v/1000), math.Mod(math.Abs(v), 1000))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// quantity shows a value with its unit: 12300 tokens/s is "12.3k tokens/s".
func quantity(n Number, unit string) string {
	switch text := value.Short(float64(n)); {
	case !n.Known():
		return unknown
	case unit == "1/s":
		return text + "/s"
	default:
		return strings.TrimSpace(text + " " + unit)
	}
}

// money shows dollars, with three digits below one dollar.
func money(usd Number) string {
	switch v := float64(usd); {
	case math.IsNaN(v):
		return unknown
	case v > 0 && v < 1:
		return "$" + strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(v))), 64)
	}
	return "$" + countText(usd)
}

// minutesText shows a number of minutes.
func minutesText(n Number) string {
	if math.IsNaN(float64(n)) {
		return unknown
	}
	return strconv.FormatFloat(round(float64(n), 0), 'f', 0, 64) + " min"
}

// durationText shows a duration in minutes, or in hours or days if it is long.
func durationText(minutes int) string {
	const hour, day = 60, 24 * 60
	switch {
	case minutes < 3*hour:
		return fmt.Sprintf("%d min", minutes)
	case minutes < 3*day:
		return fmt.Sprintf("%d hours", (minutes+hour/2)/hour)
	}
	return fmt.Sprintf("%d days", (minutes+day/2)/day)
}

// round avoids "-0".
func round(v float64, digits int) float64 {
	scale := math.Pow(10, float64(digits))
	return math.Round(v*scale)/scale + 0
}

// count writes "1 saturation", "2 saturations".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return countText(Number(n)) + " " + noun + "s"
}

// withOneDecimal is big with at most one decimal, for hours.
func withOneDecimal(n Number) string { return countText(Number(round(float64(n), 1))) }

// hours shows GPU-hours, or replica-hours if the GPUs of a replica are unknown, and the cost if known.
func (a Amount) hours() string {
	text, unit := withOneDecimal(a.GPUHours), " GPU-hours"
	if text == unknown {
		text, unit = withOneDecimal(a.ReplicaHours), " replica-hours"
	}
	if cost := money(a.USD); cost != unknown && text != unknown {
		unit += " (" + cost + ")"
	}
	return text + unit
}
