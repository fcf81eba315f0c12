package codec

import (
	"bytes"

	"github.com/forewarm/forewarm/ingest"
)

// decodeNDJSON reads a batch: one native JSON record a line. Blank lines are skipped. A bad line, such as a last one that
// was cut, refuses itself only; the lines beyond Limits.BatchRecords are refused together.
func decodeNDJSON(d *decoder, data []byte) { d.lines(data, decodeJSON) }

// decodeSumNDJSON reads a batch of sums.
func decodeSumNDJSON(d *decoder, data []byte) { d.lines(data, decodeSumJSON) }

func (d *decoder) lines(data []byte, decode func(d *decoder, line []byte)) {
	records := 0
	for rest := data; len(rest) > 0; {
		if records == d.limits.BatchRecords {
			if over := countLines(rest); over > 0 {
				d.refuse(rest, ingest.ReasonBatchTooLong, "%d records beyond the limit of %d", over, d.limits.BatchRecords)
			}
			return
		}
		line, after, _ := bytes.Cut(rest, newline)
		if rest = after; isBlank(line) {
			continue
		}
		records++
		decode(d, line)
	}
	if records == 0 {
		d.refuse(data, ingest.ReasonTruncated, "the batch has no record")
	}
}

var newline = []byte{'\n'}

// countLines counts the lines that are not blank.
func countLines(data []byte) int {
	n := 0
	for line := range bytes.Lines(data) {
		if !isBlank(line) {
			n++
		}
	}
	return n
}

func isBlank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
