package capacity

import (
	"encoding/json"
	"fmt"
	"math"
)

// fields is one JSON object with unparsed values.
type fields map[string]json.RawMessage

// integer is the first of the named fields that is present; 0 when none is.
func (f fields) integer(limit int, names ...string) (int, error) {
	for _, name := range names {
		raw, ok := f[name]
		if !ok || string(raw) == "null" {
			continue
		}
		var v float64
		if err := json.Unmarshal(raw, &v); err != nil || v != math.Trunc(v) {
			return 0, fmt.Errorf("config.json: %s is %s, want a whole number", name, cut(raw))
		}
		if v < 1 || v > float64(limit) {
			return 0, fmt.Errorf("config.json: %s is %s, out of 1…%d", name, cut(raw), limit)
		}
		return int(v), nil
	}
	return 0, nil
}

func (f fields) text(names ...string) (string, error) {
	for _, name := range names {
		if raw, ok := f[name]; ok && string(raw) != "null" {
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return "", fmt.Errorf("config.json: %s is %s, want a name such as \"bfloat16\"", name, cut(raw))
			}
			return s, nil
		}
	}
	return "", nil
}

func (f fields) flag(name string) bool { return string(f[name]) == "true" }

func missing(name string) error {
	return fmt.Errorf("config.json: %s is missing; is it the config of a transformer with attention? (kv_capacity_tokens replaces it)", name)
}

func cut(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// reader is integer with the first error kept in err, for several fields in a row.
func (f fields) reader(err *error) func(limit int, names ...string) int {
	return func(limit int, names ...string) (n int) {
		if *err == nil {
			n, *err = f.integer(limit, names...)
		}
		return n
	}
}
