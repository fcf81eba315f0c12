package backtest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// DefaultStart is the time of t_s = 0 if a trace has none: a Monday, midnight UTC.
var DefaultStart = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// DefaultPool is the pool of a trace's traffic unless Options name one.
const DefaultPool = "trace"

// maxBinWidth bounds the width of a bin, which is spread over its minutes.
const maxBinWidth = 24 * time.Hour

// Options configure the reading of a trace. The zero value detects everything.
type Options struct {
	// Format is a name of [Formats]; "" detects it by the first line.
	Format string
	// Start is the time of t_s = 0, a whole minute. Zero means [DefaultStart] for relative times, and the minute of the
	// first record for calendar times.
	Start time.Time
	// Bin is the row width of a binned trace; zero infers it (see [Reader.Notes]). A positive Bin also means that a
	// file without a requests column is binned.
	Bin time.Duration
	// Pool is "" for DefaultPool. Class is for formats without classes; "" is the file name without its extensions.
	Pool, Class string
	Only        string // keeps the traffic of this class only; "" keeps all
	Strict      bool   // stops at the first unusable row, instead of counting it
	// PrefixBlocks bounds the prefix cache that converts block hashes to cached tokens; 0 means DefaultPrefixBlocks.
	PrefixBlocks int
	// Reorder is the number of rows in the sort buffer; 0 means the format's default. A row further out of order is
	// unusable.
	Reorder int
	Limits  ingest.Limits // of counts and names; the zero value means ingest.DefaultLimits
}

// Item is one entry of a trace, with one field set. Its pointers are valid until the next Next.
type Item struct {
	Request *ingest.Request
	Sum     *ingest.Sum
}

// At returns the event time at which the item becomes known.
func (it Item) At() time.Time {
	if it.Sum != nil {
		return it.Sum.Start
	}
	return knownAt(it.Request)
}

// Items is a stream of traffic in the order of becoming known; Next returns io.EOF at its end.
type Items interface {
	Next(it *Item) error
}

// Counts of rows.
type Counts struct {
	Rows       int64 // usable rows
	Refused    int64 // unusable, skipped
	Disordered int64 // skipped, because the reorder buffer was too short
	First      error // of the first skipped row, or nil
}

// Reader reads one trace in order of time. It is not safe for concurrent use.
type Reader struct {
	path   string
	opts   Options
	format Format
	file   *os.File
	rows   rowReader
	lines  *lineScanner

	order  orderBuffer
	shift  int64 // ns to add to a row's time
	start  time.Time
	last   int64
	filled bool
	eof    bool

	counts  Counts
	notes   []string
	request ingest.Request
	sum     ingest.Sum
}

// Open opens a trace, gzipped or not, and detects its format. The caller closes the reader.
func Open(path string, opts Options) (*Reader, error) {
	if opts.Limits == (ingest.Limits{}) {
		opts.Limits = ingest.DefaultLimits()
	}
	if opts.Pool == "" {
		opts.Pool = DefaultPool
	}
	if opts.Class == "" {
		opts.Class, _, _ = strings.Cut(filepath.Base(path), ".")
	}
	if !opts.Start.Equal(opts.Start.Truncate(time.Minute)) {
		return nil, fmt.Errorf("start %s is not a whole minute: use %s", opts.Start.Format(time.RFC3339Nano), opts.Start.Truncate(time.Minute).Format(time.RFC3339))
	}
	if opts.Bin < 0 {
		return nil, fmt.Errorf("bin %s is negative: give the width of one row, such as 10m", opts.Bin)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{path: path, opts: opts, file: file}
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
			return fmt.Errorf("%s: %w", r.path, err)
		}
		in = z
	}
	r.lines = newLineScanner(in)
	first, err := r.lines.peek()
	if errors.Is(err, io.EOF) {
		err = errors.New("the file is empty")
	}
	if err == nil {
		r.format, err = recognise(first, r.opts)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	if r.rows, err = r.format.open(r.lines, r.opts); err != nil {
		return fmt.Errorf("%s:1: %w", r.path, err)
	}
	if r.format.blocks {
		r.notes = append(r.notes, prefixNote(r.opts))
	}
	if r.order.bound = r.opts.Reorder; r.order.bound <= 0 {
		r.order.bound = r.format.reorder
	}
	return r.begin()
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// Format returns the detected or given format.
func (r *Reader) Format() Format { return r.format }

// Start returns the time of t_s = 0.
func (r *Reader) Start() time.Time { return r.start }

// Counts returns the counts so far.
func (r *Reader) Counts() Counts { return r.counts }

// Notes are sentences on inferred properties of the trace, such as its bin width.
func (r *Reader) Notes() []string { return r.notes }

// Progress returns the read and the total bytes of the file.
func (r *Reader) Progress() (read, total int64) {
	read, _ = r.file.Seek(0, io.SeekCurrent) // no progress if the position is unknown
	if info, err := r.file.Stat(); err == nil {
		total = info.Size()
	}
	return read, total
}

// Next sets it to the next item in order of time. It returns io.EOF at the end. A strict reader returns an error with
// the line of an unusable row; other errors are of the file.
func (r *Reader) Next(it *Item) error {
	if err := r.fill(); err != nil {
		return err
	}
	if len(r.order.rows) == 0 {
		return io.EOF
	}
	w := r.order.rows.remove(0)
	r.last = w.at
	*it = Item{}
	switch {
	case w.record != nil:
		shiftTimes(w.record, time.Duration(r.shift))
		it.Request = w.record
	case w.width > 0:
		piece, rest := w.split(r.shift)
		if rest.width > 0 {
			r.order.push(rest)
		}
		r.sum = ingest.Sum{
			Pool: r.opts.Pool, Class: w.class, Start: time.Unix(0, piece.at+r.shift).UTC(), Requests: piece.requests,
			PromptTokens: piece.prompt, CachedTokens: piece.cached, OutputTokens: piece.output,
		}
		it.Sum = &r.sum
	default:
		r.request = ingest.Request{
			Pool: r.opts.Pool, Class: w.class, Session: w.session, Attempt: max(w.attempt, 1), ArrivedAt: time.Unix(0, w.at+r.shift).UTC(),
			PromptTokens: count(w.prompt), CachedTokens: count(w.cached), OutputTokens: count(w.output), MaxOutputTokens: ingest.Unknown,
		}
		it.Request = &r.request
	}
	return nil
}

// fill reads rows until the sort buffer is full.
func (r *Reader) fill() error {
	for len(r.order.rows) < r.order.bound && !r.eof {
		if err := r.read(); err != nil {
			return err
		}
	}
	return nil
}

// begin reads the first rows, to find the start and the bin widths.
func (r *Reader) begin() error {
	if err := r.fill(); err != nil {
		return err
	}
	if len(r.order.rows) == 0 {
		if r.counts.First != nil {
			return fmt.Errorf("no usable row; the first was refused: %w", r.counts.First)
		}
		return fmt.Errorf("%s: no rows after the header", r.path)
	}
	if r.format.binned {
		r.notes = append(r.notes, r.order.inferWidths(r.opts.Bin)...)
		if r.order.width > int64(maxBinWidth) {
			return fmt.Errorf("%s: bins of %s are too wide to forecast minutes from: give the right width with -bin, at most %s", r.path, time.Duration(r.order.width), maxBinWidth)
		}
	}
	base := time.Unix(0, 0).UTC()
	r.start = DefaultStart
	if r.format.absolute {
		base = time.Unix(0, r.order.rows[0].at).UTC().Truncate(time.Minute)
		r.start = base
	}
	if !r.opts.Start.IsZero() {
		r.start = r.opts.Start.UTC()
	}
	r.shift = int64(r.start.Sub(base))
	r.filled = true
	return nil
}

// read takes one row from the file into the sort buffer.
func (r *Reader) read() error {
	w := &row{}
	err := r.rows.next(w)
	var bad badRow
	switch {
	case errors.Is(err, io.EOF):
		r.eof = true
		return nil
	case errors.As(err, &bad):
		r.counts.Refused++
		return r.refuse(string(bad))
	case err != nil:
		return fmt.Errorf("%s:%d: %w", r.path, r.lines.line, err)
	case r.opts.Only != "" && w.ofClass() != r.opts.Only:
		return nil
	case r.filled && w.at < r.last:
		r.counts.Disordered++
		return r.refuse(fmt.Sprintf("the row lies before one %d rows earlier: sort the file by time", r.order.bound))
	}
	if r.filled && r.format.binned {
		w.width = r.order.widthOf(w.class)
	}
	r.counts.Rows++
	r.order.push(w)
	return nil
}

// refuse records why the newest row is unusable. That ends a strict reading.
func (r *Reader) refuse(what string) error {
	err := fmt.Errorf("%s:%d: %s", r.path, r.lines.line, what)
	if r.opts.Strict {
		return err
	}
	if r.counts.First == nil {
		r.counts.First = err
	}
	return nil
}
