package report

import (
	"strings"

	"github.com/forewarm/forewarm/internal/value"
)

// quantity shows a value with its unit: 12300 tokens/s is "12.3k tokens/s".
func quantity(n Number, unit string) string {
	switch text := value.Short(float64(n)); {
	case !n.Known():
		return text
	case unit == "1/s":
		return text + "/s"
	default:
		return strings.TrimSpace(text + " " + unit)
	}
}

// hours shows GPU-hours, or replica-hours if the GPUs of a replica are unknown, and the cost if known.
func (a Amount) hours() string {
	text := value.Large(a.GPUHours) + " GPU-hours"
	if !a.GPUHours.Known() {
		text = value.Large(a.ReplicaHours) + " replica-hours"
	}
	if a.USD.Known() {
		text += " (" + value.Dollars(a.USD) + ")"
	}
	return text
}
