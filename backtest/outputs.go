package backtest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
)

// table writes a CSV file, gzipped when its name ends in .gz. The first error is kept and returned by Close.
type table struct {
	path string
	file *os.File
	zip  *gzip.Writer
	buf  *bufio.Writer
	line []byte
	err  error
}

// createTable begins a file with its header.
func createTable(path, header string) (*table, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	t := &table{path: path, file: file}
	var to io.Writer = file
	if strings.EqualFold(filepath.Ext(path), ".gz") {
		t.zip, _ = gzip.NewWriterLevel(file, gzip.BestSpeed)
		to = t.zip
	}
	t.buf = bufio.NewWriterSize(to, 256<<10)
	t.write(append([]byte(header), '\n'))
	return t, nil
}

func (t *table) write(b []byte) {
	if t.err == nil {
		_, t.err = t.buf.Write(b)
	}
}

// Close writes out what is buffered; nil tables close well.
func (t *table) Close() error {
	if t == nil {
		return nil
	}
	errs := []error{t.err, t.buf.Flush()}
	if t.zip != nil {
		errs = append(errs, t.zip.Close())
	}
	return errors.Join(append(errs, t.file.Close())...)
}

// digits is the precision of numbers in every table.
const digits = 6

func appendNumber(b []byte, x float64) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return b // empty is unknown
	}
	return strconv.AppendFloat(b, x, 'g', digits, 64)
}

// appendText quotes what CSV needs quoted.
func appendText(b []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") {
		return append(b, s...)
	}
	return append(append(append(b, '"'), strings.ReplaceAll(s, `"`, `""`)...), '"')
}

const (
	forecastsHeader = "origin_s,class,dimension,h_min,q50,q80,q90,q95,q99"
	decisionsHeader = "t_s,pool,policy,ready,pending,desired,binding,probability,eta_p50_s"

	forecastMinutes = 30 // written ahead of each origin
)

// forecasts writes the rows of one origin: each minute to 30, then the window maximum.
func (t *table) forecasts(start time.Time, fs []forecaster.Forecast) {
	if t == nil {
		return
	}
	var key []byte
	for i := range fs {
		f := &fs[i]
		key = strconv.AppendInt(key[:0], int64(f.Origin.Sub(start)/time.Second), 10)
		key = appendText(append(key, ','), f.Class)
		key = append(append(append(key, ','), f.Dimension...), ',')
		for h := 1; h <= forecastMinutes; h++ {
			t.quantiles(strconv.AppendInt(append(t.line[:0], key...), int64(h), 10), &f.Minute[h-1])
		}
		t.quantiles(append(append(t.line[:0], key...), forecaster.HorizonWindowMax...), &f.WindowMax)
	}
}

func (t *table) quantiles(line []byte, q *forecaster.Quantiles) {
	for _, level := range forecaster.ScoredLevels {
		line = appendNumber(append(line, ','), q[level])
	}
	t.line = append(line, '\n')
	t.write(t.line)
}

// decision writes what Forewarm decided.
func (t *table) decision(start time.Time, d *alerting.Decision) {
	if t == nil {
		return
	}
	b := t.decided(d.Tick.Sub(start), d.Pool, ForewarmPolicy, d.Ready, d.Pending, d.Desired)
	b = appendText(append(b, ','), d.Binding)
	b = appendNumber(append(b, ','), d.Probability)
	b = append(b, ',')
	if d.ETA.P50 != forecaster.Never {
		b = appendNumber(b, d.ETA.P50.Seconds())
	}
	t.line = append(b, '\n')
	t.write(t.line)
}

// rival writes what another policy decided; it names no resource, probability or time.
func (t *table) rival(start time.Time, pool, policy string, o Observation, desired int) {
	if t == nil {
		return
	}
	t.line = append(t.decided(o.At.Sub(start), pool, policy, o.Ready, o.Pending, desired), ",,,\n"...)
	t.write(t.line)
}

func (t *table) decided(at time.Duration, pool, policy string, ready, pending, desired int) []byte {
	b := strconv.AppendInt(t.line[:0], int64(at/time.Second), 10)
	b = appendText(append(b, ','), pool)
	b = append(append(b, ','), policy...)
	for _, n := range [...]int{ready, pending, desired} {
		b = strconv.AppendInt(append(b, ','), int64(n), 10)
	}
	return b
}

// writeSummary writes the summary as indented JSON.
func writeSummary(path string, s *Summary) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
