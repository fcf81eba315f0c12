package backtest

import (
	"cmp"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

type table struct {
	csv  *csv.Writer
	file *os.File
}

// createTable creates a file with its header; without a path it discards the rows.
func createTable(path, header string) (*table, error) {
	file, err := os.Create(cmp.Or(path, os.DevNull))
	if err != nil {
		return nil, err
	}
	t := &table{csv: csv.NewWriter(file), file: file}
	t.write(strings.Split(header, ",")...)
	return t, nil
}

// write writes a row; the csv.Writer keeps the first error.
func (t *table) write(cells ...string) { _ = t.csv.Write(cells) }

// Close flushes and closes the file. It returns all errors.
func (t *table) Close() error {
	t.csv.Flush()
	return errors.Join(t.csv.Error(), t.file.Close())
}

// number formats a cell; empty means unknown.
func number(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

const (
	forecastsHeader = "origin_s,class,dimension,h_min,q50,q80,q90,q95,q99"
	decisionsHeader = "t_s,pool,policy,ready,pending,desired,binding,probability,eta_p50_s"

	forecastMinutes = 30 // minutes after each origin that are written
)

// forecasts writes the rows of one origin: each minute up to 30, then the window maximum.
func (t *table) forecasts(start time.Time, fs []forecaster.Forecast) {
	for i := range fs {
		f := &fs[i]
		row := func(horizon string, q *forecaster.Quantiles) {
			cells := []string{seconds(f.Origin.Sub(start)), f.Class, f.Dimension, horizon}
			for _, level := range forecaster.ScoredLevels {
				cells = append(cells, number(q[level]))
			}
			t.write(cells...)
		}
		for h := 1; h <= forecastMinutes; h++ {
			row(strconv.Itoa(h), &f.Minute[h-1])
		}
		row(forecaster.HorizonWindowMax, &f.WindowMax)
	}
}

// decision writes a decision of a policy. All but Forewarm leave resource, probability and time empty.
func (t *table) decision(
	at time.Duration, pool, policy string, ready, pending, desired int, binding, probability, eta string,
) {
	t.write(seconds(at), pool, policy, strconv.Itoa(ready), strconv.Itoa(pending), strconv.Itoa(desired), binding, probability, eta)
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
