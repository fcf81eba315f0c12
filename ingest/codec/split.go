package codec

import (
	"bytes"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/forewarm/forewarm/ingest"
)

// split calls each with every record of a message in a foreign JSON format: one object, an array of them, or one of
// either a line. A broken line is refused alone, and so is what follows a broken element of an array. Records beyond
// Limits.BatchRecords are refused together. O(len(data)).
func (d *Decoder) split(data []byte, each func(record []byte)) {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		d.refuse(ingest.ReasonTruncated, "the message is empty")
		return
	}
	if bytes.Contains(data, []byte("NaN")) || bytes.Contains(data, []byte("Infinity")) {
		data = nonFinite.ReplaceAll(data, []byte("${1}null"))
	}
	records := 0
	record := func(data []byte) {
		if records++; records <= d.limits.BatchRecords {
			each(data)
		}
	}
	if hasLines := bytes.Contains(data, []byte("\n{")) || bytes.Contains(data, []byte("\n[")); hasLines && !d.isValidJSON(data) {
		for line := range bytes.Lines(data) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				d.elements(line, record)
			}
		}
	} else {
		d.elements(data, record)
	}
	d.refuseBeyond(records)
}

// nonFinite finds NaN, Infinity and -Infinity, which Python's json writes but which are not JSON. One in a string
// changes a text that is not kept.
var nonFinite = regexp.MustCompile(`([:\[,]\s*)(?:NaN|-?Infinity)\b`)

// elements calls record with each element of an array, and with any other value as it is: also with an array that nests
// too deep, which record refuses.
func (d *Decoder) elements(data []byte, record func(data []byte)) {
	if data[0] != '[' || nestsDeeper(data, d.limits.Depth+1) {
		record(data)
		return
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(data), jsonOptions...)
	_, err := decoder.ReadToken()
	for err == nil && decoder.PeekKind() != ']' {
		var raw []byte
		if raw, err = decoder.ReadValue(); err == nil {
			record(raw)
		}
	}
	if reason, at := jsonFault(data); reason != "" {
		d.refuse(reason, "the array breaks at byte %d of %d: what follows is lost", at, len(data))
	}
}

// stringEnd returns the offset of the closing quote of the string with its opening quote at i; len(data) without one.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data)
}
