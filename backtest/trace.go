package backtest

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// DefaultStart is the time of t_s = 0 if no other is given: a Monday, midnight UTC.
var DefaultStart = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// DefaultPool is the pool of a trace's traffic unless Options name one.
const DefaultPool = "trace"

// maxBinWidth bounds the width of a bin, which is spread over its minutes.
const maxBinWidth = 24 * time.Hour

// Options configure the reading of a trace. The zero value detects everything.
type Options struct {
	// Start is the time of t_s = 0, without its seconds; zero means [DefaultStart]. Records have their own times.
	Start time.Time
	// Bin is the width of a bin; zero infers it. A positive Bin also means that a CSV file without a requests column has
	// bins.
	Bin time.Duration
	// Pool is "" for DefaultPool. Class is for rows without one; "" is the file name without its extensions.
	Pool, Class string
	Only        string // keeps the traffic of this class only; "" keeps all
	// Progress, if set, is called now and then while the trace is read: with a label, and the read and the total bytes of
	// the file or recorded minutes.
	Progress func(label string, read, total int64)
	label    string // "" means reading
}

// Item is one entry of a trace, with one field set.
type Item struct {
	Request *ingest.Request
	Sum     *ingest.Sum
}

// At returns the event time at which the item becomes known. A record becomes known at the request's end, if that is
// known and the record is of the end; a row of a CSV file at its own time.
func (it Item) At() time.Time {
	if it.Sum != nil {
		return it.Sum.Start
	}
	if r := it.Request; r.Phase != ingest.PhaseArrived && !r.FinishedAt.IsZero() {
		return r.FinishedAt
	}
	return it.Request.EventTime()
}

func (it Item) class() string {
	if it.Sum != nil {
		return it.Sum.Class
	}
	return it.Request.Class
}

// Items is a stream of traffic in the order of becoming known; Next returns io.EOF at its end.
type Items interface {
	Next(it *Item) error
}

// row is an item in the sort buffer.
type row struct {
	Item
	at, seq int64         // ns since 1970, and the order in the file
	width   time.Duration // of the rest of a bin
}

// rowHeap is a min-heap by time, then by file order. Its methods are for container/heap.
type rowHeap []*row

func (h rowHeap) Len() int           { return len(h) }
func (h rowHeap) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h rowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rowHeap) Push(x any)        { *h = append(*h, x.(*row)) }

func (h *rowHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil // for the garbage collector
	*h = (*h)[:last]
	return x
}

func (w *row) compare(other *row) int {
	return cmp.Or(cmp.Compare(w.at, other.at), cmp.Compare(w.seq, other.seq))
}

// rowReader reads a format row by row in file order. It returns io.EOF at the end and a badRow for an unusable row, and
// can continue after that.
type rowReader interface {
	next() (Item, error)
}

// badRow says why a row is unusable, and the fix.
type badRow string

func (b badRow) Error() string { return string(b) }

// Format is a format of traces.
type Format struct {
	Name   string
	binned bool // rows are sums over spans
	timed  bool // rows have the times of a request's phases
	// reorder is the size of the sort buffer, in rows.
	reorder int
}

// The formats: CSV files with a row per bin or per request, and telemetry records, one JSON object a line. A record
// becomes known at the request's end, but is often written in order of arrival. So the buffer must hold the arrivals
// during the longest request; a record takes about half a kilobyte.
var (
	binsFormat     = Format{Name: "bins", binned: true, reorder: 1 << 20}
	requestsFormat = Format{Name: "requests", reorder: 4096}
	ndjsonFormat   = Format{Name: "ndjson", timed: true, reorder: 1 << 17}
	dynamoFormat   = Format{Name: "dynamo", timed: true, reorder: 1 << 17}
	recordedFormat = Format{Name: "recorded minutes", reorder: 1}
)

// Reader reads one trace in order of time. It is not safe for concurrent use.
type Reader struct {
	Format Format    // as detected
	Start  time.Time // of t_s = 0; the minute of the first item if items have times
	// Summary counts the rows so far. Notes are sentences on inferred properties of the trace, such as its bin width.
	Summary TraceSummary

	opts  Options
	file  *os.File // nil for recorded minutes
	rows  rowReader
	lines *lineScanner

	sorted rowHeap
	seq    int64         // rows read, with those left out
	last   int64         // time of the last returned row
	bin    time.Duration // width of a bin
	eof    bool
}

// Open opens a trace, gzipped or not, and detects its format. The caller closes the reader.
func Open(path string, opts Options) (*Reader, error) {
	if opts.Class == "" {
		opts.Class, _, _ = strings.Cut(filepath.Base(path), ".")
	}
	if opts.Bin < 0 || opts.Bin > maxBinWidth {
		return nil, fmt.Errorf("-bin %s is out of 0…%s: give the width of one row, such as 10m", opts.Bin, maxBinWidth)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w; name a readable file", err)
	}
	r := &Reader{Summary: TraceSummary{Path: path}, opts: opts, file: file}
	if err := r.open(file); err != nil {
		_ = file.Close() // the first error is more useful
		return nil, err
	}
	return r, nil
}

func (r *Reader) open(file io.Reader) error {
	buffered := bufio.NewReaderSize(file, 64<<10)
	var in io.Reader = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Summary.Path, err)
		}
		in = z
	}
	r.lines = &lineScanner{Scanner: bufio.NewScanner(in)}
	r.lines.Buffer(make([]byte, 64<<10), maxLine)
	if err := r.recognise(); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the file is empty", r.Summary.Path)
	} else if err != nil {
		return fmt.Errorf("%s: %w", r.Summary.Path, err)
	}
	return r.begin()
}

// recognise finds the format by the first line.
func (r *Reader) recognise() (err error) {
	first, err := r.lines.next()
	if err != nil {
		return err
	}
	ofDynamo := bytes.Contains(first, []byte(`"dynamo.request.trace.v1"`))
	if first[0] != '{' || !ofDynamo && ofMooncake(first) {
		table, format, err := newTableReader(r.lines, first, &r.opts)
		if err == nil {
			r.rows, r.Format, r.Start = table, format, table.start
		}
		return err
	}
	if !r.opts.Start.IsZero() || r.opts.Bin > 0 {
		return errors.New("records have their own times: leave out -start and -bin, which are for CSV files")
	}
	r.lines.repeat = true
	r.Format = ndjsonFormat
	meta := codec.Meta{Kind: codec.KindRequest, ContentType: codec.ContentTypeJSON, Pool: DefaultPool, Class: r.opts.Class}
	if ofDynamo {
		r.Format, meta.ContentType = dynamoFormat, codec.ContentTypeDynamo
	}
	r.rows = &recordReader{lines: r.lines, meta: meta}
	return nil
}

// begin reads the first rows, to find the start and the bin width.
func (r *Reader) begin() error {
	r.Summary.Format = r.Format.Name
	if err := r.fill(); err != nil {
		return err
	}
	switch {
	case len(r.sorted) > 0: // there is traffic
	case r.Summary.FirstRefused != "":
		return fmt.Errorf("no usable row; the first was refused: %s", r.Summary.FirstRefused)
	case r.opts.Only != "":
		return fmt.Errorf("%s: no row has the class %q: name one that there is", r.Summary.Path, r.opts.Only)
	default:
		return fmt.Errorf("%s: no rows after the header", r.Summary.Path)
	}
	if r.Start.IsZero() {
		r.Start = r.sorted[0].At().Truncate(time.Minute)
	}
	if !r.Format.binned {
		return nil
	}
	if r.bin = r.opts.Bin; r.bin == 0 {
		r.bin = r.smallestStep()
		r.Summary.Notes = append(r.Summary.Notes, fmt.Sprintf("bin width %s inferred from the smallest step of t_s in a class; give it with -bin if it is another", r.bin))
	}
	if r.bin > maxBinWidth {
		return fmt.Errorf("%s: bins of %s are too wide to forecast minutes from: give the right width with -bin, at most %s", r.Summary.Path, r.bin, maxBinWidth)
	}
	if r.bin > time.Minute {
		r.Summary.Notes = append(r.Summary.Notes, wideBins)
	}
	for _, w := range r.sorted {
		w.width = r.bin
	}
	return nil
}

// wideBins is a caveat for traces with bins wider than a minute.
const wideBins = "bins are spread evenly over their minutes: forecasts of less than a bin ahead look better than they are"

// smallestStep returns the smallest step between two bins of one class; a minute if no class has two.
func (r *Reader) smallestStep() time.Duration {
	slices.SortFunc(r.sorted, (*row).compare) // remains a heap
	smallest, newest := int64(0), map[string]int64{}
	for _, w := range r.sorted {
		if before, ok := newest[w.class()]; ok && w.at > before && (smallest == 0 || w.at-before < smallest) {
			smallest = w.at - before
		}
		newest[w.class()] = w.at
	}
	return cmp.Or(time.Duration(smallest), time.Minute)
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// progress returns the read and the total bytes of the file, or recorded minutes.
func (r *Reader) progress() (read, total int64) {
	if x, ok := r.rows.(*recordedRows); ok {
		return int64(x.minute), int64(x.minutes())
	}
	read, _ = r.file.Seek(0, io.SeekCurrent) // no progress if the position is unknown
	if info, err := r.file.Stat(); err == nil {
		total = info.Size()
	}
	return read, total
}

// Next sets it to the next item in order of time; io.EOF at the end. Other errors are of the file.
func (r *Reader) Next(it *Item) error {
	if err := r.fill(); err != nil {
		return err
	}
	if len(r.sorted) == 0 {
		return io.EOF
	}
	w := heap.Pop(&r.sorted).(*row)
	r.last = w.at
	if w.width > 0 {
		if rest := w.splitMinute(); rest != nil {
			heap.Push(&r.sorted, rest)
		}
	}
	*it = w.Item
	return nil
}

// fill reads rows until the sort buffer is full.
func (r *Reader) fill() error {
	for len(r.sorted) < r.Format.reorder && !r.eof {
		if err := r.read(); err != nil {
			return err
		}
	}
	return nil
}

// progressRows is the number of rows between two calls of Options.Progress.
const progressRows = 64

// read takes one row from the file into the sort buffer.
func (r *Reader) read() error {
	if r.seq%progressRows == 0 && r.opts.Progress != nil {
		read, total := r.progress()
		r.opts.Progress(cmp.Or(r.opts.label, "reading"), read, total)
	}
	r.seq++
	item, err := r.rows.next()
	var bad badRow
	switch {
	case errors.Is(err, io.EOF):
		r.eof = true
		return nil
	case errors.As(err, &bad):
		r.refuse(string(bad))
		return nil
	case err != nil:
		return fmt.Errorf("%s:%d: %w", r.Summary.Path, r.lines.line, err)
	case r.opts.Only != "" && item.class() != r.opts.Only:
		return nil
	}
	at := item.At().UnixNano()
	if at < r.last {
		r.refuse(fmt.Sprintf("the row lies before one %d rows earlier: sort the file by time", r.Format.reorder))
		return nil
	}
	r.Summary.Rows++
	heap.Push(&r.sorted, &row{Item: item, at: at, seq: r.seq, width: r.bin})
	return nil
}

// refuse counts the newest row as refused. It keeps the reason of the first.
func (r *Reader) refuse(why string) {
	r.Summary.Refused++
	if r.Summary.FirstRefused == "" {
		r.Summary.FirstRefused = fmt.Sprintf("%s:%d: %s", r.Summary.Path, r.lines.line, why)
	}
}

// splitMinute shortens a bin to its first minute, with counts in proportion to time. It returns the rest, or nil.
func (w *row) splitMinute() *row {
	width := min(w.width, w.Sum.Start.Truncate(time.Minute).Add(time.Minute).Sub(w.Sum.Start))
	if width == w.width {
		return nil
	}
	piece, rest := *w.Sum, *w.Sum
	rest.Start = rest.Start.Add(width)
	part := float64(width) / float64(w.width)
	for _, c := range []struct{ piece, rest *float64 }{
		{&piece.Requests, &rest.Requests}, {&piece.PromptTokens, &rest.PromptTokens}, {&piece.CachedTokens, &rest.CachedTokens},
		{&piece.OutputTokens, &rest.OutputTokens},
	} {
		*c.piece *= part
		*c.rest -= *c.piece
	}
	w.Sum = &piece
	return &row{Item: Item{Sum: &rest}, at: rest.Start.UnixNano(), seq: w.seq, width: w.width - width}
}
