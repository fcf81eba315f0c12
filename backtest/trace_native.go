package backtest

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// maxSeconds bounds t_s: three centuries.
const maxSeconds = 1e10

// maxBin bounds the counts of one bin: a float64 counts exactly up to there.
const maxBin = 1 << 53

// maxAttempt bounds the attempts at one call.
const maxAttempt = 1 << 16

// maxClasses bounds the class names that a reader keeps to share their memory.
const maxClasses = 1 << 16

// nativeReader reads Forewarm's own CSV, one row a request or one a bin. Columns are found by name, others are ignored.
// An empty or absent field is unknown.
type nativeReader struct {
	lines *lineScanner
	cols  *columns
	most  float64
	label int
	class string
	names interner
}

func openNative(l *lineScanner, o Options) (rowReader, error) {
	header, err := l.next()
	if err != nil {
		return nil, err
	}
	cols, err := newColumns(header, []string{"t_s", "class"}, "requests", "prompt_tokens", "cached_tokens", "output_tokens", "session", "attempt")
	if err != nil {
		return nil, err
	}
	most := float64(o.Limits.Tokens)
	if sniffBins(header, o) {
		most = maxBin
	}
	return &nativeReader{lines: l, cols: cols, most: most, label: o.Limits.LabelBytes, class: o.Class, names: interner{}}, nil
}

func (n *nativeReader) next(w *row) error {
	line, err := n.lines.next()
	if err != nil {
		return err
	}
	c := n.cols
	if err := c.split(line); err != nil {
		return err
	}
	t, err := c.number(0, "t_s", maxSeconds)
	if err != nil {
		return err
	}
	if math.IsNaN(t) {
		return badRow("t_s is empty: give seconds from the trace's start")
	}
	class := c.text(1)
	if len(class) > n.label {
		return badRow("the class name is too long: is this the class column?")
	}
	*w = row{at: nanoseconds(t), class: n.class}
	if len(class) > 0 {
		w.class = n.names.name(class)
	}
	for i, f := range []struct {
		name string
		to   *float64
	}{{"requests", &w.requests}, {"prompt_tokens", &w.prompt}, {"cached_tokens", &w.cached}, {"output_tokens", &w.output}} {
		if *f.to, err = c.number(2+i, f.name, n.most); err != nil {
			return err
		}
	}
	if w.cached > w.prompt {
		return badRow("cached_tokens exceeds prompt_tokens: prompt_tokens includes the cached ones")
	}
	w.session = ingest.HashSession(string(c.text(6)))
	attempt, err := c.number(7, "attempt", maxAttempt)
	if err != nil {
		return err
	}
	if attempt > 1 {
		w.attempt = int(attempt)
	}
	return nil
}

// nanoseconds rounds seconds down to the microsecond, so that no row slips into the next minute.
func nanoseconds(s float64) int64 {
	return int64(math.Floor(s*1e6)) * int64(time.Microsecond)
}

// interner keeps one string for each name, up to maxClasses.
type interner map[string]string

func (in interner) name(b []byte) string {
	if s, ok := in[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(in) < maxClasses {
		in[s] = s
	}
	return s
}
