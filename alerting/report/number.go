package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// unknown is how a number that is not known is shown.
const unknown = "–"

// percent shows a fraction with two significant digits below ten percent, whole percent above.
func percent(n Number) string {
	p := 100 * float64(n)
	switch {
	case math.IsNaN(p) || math.IsInf(p, 0):
		return unknown
	case math.Abs(p) < 9.95:
		return strconv.FormatFloat(round(p, 1), 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(round(p, 0), 'f', 0, 64) + " %"
}

// signed is percent with its sign shown.
func signed(n Number) string {
	s := percent(n)
	if n > 0 && s != "0.0 %" {
		s = "+" + s
	}
	return s
}

// quantity shows a value with three significant digits and an SI prefix: 12300 tokens/s is "12.3 k tokens/s".
func quantity(n Number, unit string) string {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return unknown
	}
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T"} {
		if math.Abs(v) < 999.5 {
			break
		}
		v, prefix = v/1000, " "+p
	}
	return strings.TrimRight(strconv.FormatFloat(v, 'g', 3, 64)+prefix+" "+strings.TrimPrefix(unit, "1"), " ") // "1/s" is read as "/s"
}

// lead shows minutes.
func lead(n Number) string {
	if math.IsNaN(float64(n)) {
		return unknown
	}
	return strconv.FormatFloat(round(float64(n), 0), 'f', 0, 64) + " min"
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
	return fmt.Sprintf("%d %ss", n, noun)
}
