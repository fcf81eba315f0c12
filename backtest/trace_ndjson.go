package backtest

import (
	"fmt"

	"github.com/forewarm/forewarm/ingest"
)

// ndjsonReader reads recorded forewarm.request.v1 telemetry, one JSON object a line, by the same decoder that the
// daemon uses. A record comes up when it was written: at the request's end where that is known, as in life.
type ndjsonReader struct {
	lines *lineScanner
	meta  ingest.Meta
	lim   ingest.Limits
	batch ingest.Batch
}

func openNDJSON(l *lineScanner, o Options) (rowReader, error) {
	return &ndjsonReader{
		lines: l, lim: o.Limits,
		meta: ingest.Meta{Kind: ingest.KindRequest, ContentType: ingest.ContentTypeJSON, Pool: o.Pool, Class: o.Class},
	}, nil
}

func (n *ndjsonReader) next(w *row) error {
	line, err := n.lines.next()
	if err != nil {
		return err
	}
	n.batch.Reset()
	ingest.Decode(n.meta, line, n.lim, &n.batch)
	if len(n.batch.Requests) != 1 {
		if len(n.batch.Refused) > 0 {
			return badRow(fmt.Sprintf("%s: %s", n.batch.Refused[0].Reason, n.batch.Refused[0].Detail))
		}
		return badRow("the line holds no request: one forewarm.request.v1 object a line")
	}
	record := n.batch.Requests[0]
	*w = row{at: knownAt(&record).UnixNano(), class: record.Class, record: &record}
	return nil
}
