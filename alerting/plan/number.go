package plan

import (
	"encoding/json"
	"math"
)

// number is a float that is null in JSON if unknown.
type number float64

var unknown = number(math.NaN())

// Known reports whether n is finite.
func (n number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}
