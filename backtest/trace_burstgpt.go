package backtest

import (
	"bytes"
	"math"
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

// burstReader reads BurstGPT (arXiv 2401.17644): Timestamp in seconds, Model, Request tokens, Response tokens, Log Type,
// and in the later edition Session ID. The class is the model and the log type: "chatgpt/conversation". The cache is not
// reported, so cached tokens are unknown.
type burstReader struct {
	lines *lineScanner
	cols  *columns
	most  float64
	label int
	names interner
}

func openBurstGPT(l *lineScanner, o Options) (rowReader, error) {
	header, err := l.next()
	if err != nil {
		return nil, err
	}
	cols, err := newColumns(header, []string{"Timestamp", "Model", "Request tokens", "Response tokens"}, "Log Type", "Session ID")
	if err != nil {
		return nil, err
	}
	return &burstReader{lines: l, cols: cols, most: float64(o.Limits.Tokens), label: o.Limits.LabelBytes, names: interner{}}, nil
}

func (b *burstReader) next(w *row) error {
	line, err := b.lines.next()
	if err != nil {
		return err
	}
	if err := b.cols.split(line); err != nil {
		return err
	}
	t, err := b.cols.number(0, "Timestamp", maxSeconds)
	if err != nil {
		return err
	}
	if math.IsNaN(t) {
		return badRow("Timestamp is empty: give seconds from the trace's start")
	}
	*w = row{at: nanoseconds(t), cached: math.NaN(), session: ingest.HashSession(string(b.cols.text(5)))}
	if w.class = b.class(b.cols.text(1), b.cols.text(4)); len(w.class) > b.label {
		return badRow("the Model and Log Type are too long for a class name: check the columns")
	}
	if w.prompt, err = b.cols.number(2, "Request tokens", b.most); err != nil {
		return err
	}
	w.output, err = b.cols.number(3, "Response tokens", b.most)
	return err
}

func (b *burstReader) class(model, kind []byte) string {
	if len(kind) == 0 {
		return strings.ToLower(b.names.name(model))
	}
	kind = bytes.TrimSuffix(kind, []byte(" log"))
	return strings.ToLower(b.names.name(append(append(append([]byte(nil), model...), '/'), kind...)))
}
