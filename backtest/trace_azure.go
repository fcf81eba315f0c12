package backtest

import (
	"fmt"
	"math"
	"time"
)

// azureLayouts are the timestamps of the 2023 and 2024 editions of the Azure LLM inference trace. Layouts accept any
// number of fractional digits. Without a zone it is UTC.
var azureLayouts = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05"}

// azureReader reads the Azure LLM inference trace (AzurePublicDataset, CC-BY): TIMESTAMP,ContextTokens,GeneratedTokens.
// The cache is not reported, so cached tokens are unknown.
type azureReader struct {
	lines *lineScanner
	cols  *columns
	most  float64
	class string
}

func openAzure(l *lineScanner, o Options) (rowReader, error) {
	header, err := l.next()
	if err != nil {
		return nil, err
	}
	cols, err := newColumns(header, []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"})
	if err != nil {
		return nil, err
	}
	return &azureReader{lines: l, cols: cols, most: float64(o.Limits.Tokens), class: o.Class}, nil
}

func (a *azureReader) next(w *row) error {
	line, err := a.lines.next()
	if err != nil {
		return err
	}
	if err := a.cols.split(line); err != nil {
		return err
	}
	at, err := azureTime(a.cols.text(0))
	if err != nil {
		return err
	}
	*w = row{at: at.UnixNano(), class: a.class, cached: math.NaN()}
	if w.prompt, err = a.cols.number(1, "ContextTokens", a.most); err != nil {
		return err
	}
	w.output, err = a.cols.number(2, "GeneratedTokens", a.most)
	return err
}

func azureTime(b []byte) (time.Time, error) {
	for _, layout := range azureLayouts {
		if t, err := time.Parse(layout, string(b)); err == nil && t.Year() >= 1970 && t.Year() < 2200 {
			return t, nil
		}
	}
	return time.Time{}, badRow(fmt.Sprintf("TIMESTAMP %q is not a time such as 2023-11-16 18:15:46.6805900 or 2024-05-12 00:00:00+00:00", clip(b, 40)))
}
