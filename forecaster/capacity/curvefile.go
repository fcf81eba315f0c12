package capacity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// curveFormat is one format of benchmark files.
type curveFormat struct {
	name, help string
	// parse returns the measurements, or errNotThis for a file of another format.
	parse func(data []byte) ([]Point, error)
}

var errNotThis = errors.New("another format")

// curveFormats are tried in order: to add one, add a row.
var curveFormats = []curveFormat{
	{"vllm", "vllm bench serve --save-result, one or a list of them, or one a line", parseVLLM},
	{"csv", "a table with the columns " + strings.Join(curveColumns, ","), parseCurveCSV},
}

// ParseCurve reads a benchmark of one replica in a known format. Errors say what is wrong with the file.
func ParseCurve(data []byte) (Curve, error) {
	if len(data) > maxCurveBytes {
		return Curve{}, fmt.Errorf("the file has %d bytes, more than the %d allowed; leave out the single requests", len(data), maxCurveBytes)
	}
	data = bytes.TrimPrefix(bytes.TrimSpace(data), []byte("\ufeff"))
	var names []string
	for _, f := range curveFormats {
		points, err := f.parse(data)
		if errors.Is(err, errNotThis) {
			names = append(names, f.help)
			continue
		}
		if err != nil {
			return Curve{}, fmt.Errorf("read as %s: %w", f.name, err)
		}
		c, err := newCurve(f.name, points)
		if err != nil {
			return Curve{}, fmt.Errorf("read as %s: %w", f.name, err)
		}
		return c, nil
	}
	return Curve{}, fmt.Errorf("the file is none of: %s", strings.Join(names, "; "))
}

// documents are the JSON objects of a file: one, a list of them, or one a line. Nil without any.
func documents(data []byte) []fields {
	var list []fields
	if json.Unmarshal(data, &list) == nil {
		return list
	}
	list = nil
	for d := json.NewDecoder(bytes.NewReader(data)); len(list) <= maxCurvePoints; {
		var f fields
		if d.Decode(&f) != nil {
			break
		}
		list = append(list, f)
	}
	return list
}

// float is the first named number that is present; 0 when none is.
func (f fields) float(names ...string) float64 {
	for _, name := range names {
		var v *float64
		if raw, ok := f[name]; ok && json.Unmarshal(raw, &v) == nil && v != nil {
			return *v
		}
	}
	return 0
}

const perMilli = 1e-3 // seconds of a millisecond
