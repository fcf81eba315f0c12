package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/storage"
)

const week = 7 * 24 * time.Hour

func runReport(ctx context.Context, args []string, std streams) (err error) {
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	path := f.String("config", "", "configuration `file`; its storage.dir is read")
	dir := f.String("data", "", "data `directory`, instead of -config")
	from := f.String("from", "", "start of the period, RFC 3339 or YYYY-MM-DD (default: a week before -to)")
	to := f.String("to", "", "end of the period (default: the newest decision)")
	format := f.String("format", "md", "md, json or html")
	out := f.String("o", "", "write to `file` instead of standard output")
	again := f.Bool("suggest", false, "run the period again with other settings and classes, and suggest those that do better; takes some 20 s for each resource and week of a pool, 5 s for each class tried, and -config")
	if err := parseOnly(f, args, std); err != nil {
		return err
	}
	if *again && *path == "" {
		return usagef("-suggest needs -config: what is in force is not in the data")
	}
	page, err := reportPage(*format)
	if err != nil {
		return usagef("-format %w", err)
	}
	start, end, err := parsePeriod(*from, *to)
	if err != nil {
		return err
	}
	sc, daemonAt, pipeline := storage.DefaultConfig(), "", forewarm.Config{}
	switch {
	case *dir != "" && *path != "":
		return usagef("give -config or -data, not both")
	case *dir != "":
		sc.Dir = *dir
	case *path != "":
		cfg, err := config.Load(*path)
		if err != nil {
			return usageError{err}
		}
		if pipeline, err = cfg.Pipeline(); err != nil {
			return usageError{err}
		}
		sc, daemonAt = cfg.Storage, cfg.Server.Listen
	}
	if err := checkDataDir(sc.Dir); err != nil {
		return err
	}
	h, closeHistory, err := openHistory(sc)
	switch {
	case errors.Is(err, storage.ErrLocked) && *again:
		return fmt.Errorf("%w; -suggest reads a directory that no daemon holds, such as a copy", err)
	case errors.Is(err, storage.ErrLocked) && daemonAt != "":
		query := url.Values{"from": {*from}, "to": {*to}, "format": {*format}}
		return writeTo(*out, std.out, func(w io.Writer) error { return askDaemon(ctx, w, "http://"+daemonAt+"/api/v1/report?"+query.Encode()) })
	case errors.Is(err, storage.ErrLocked):
		return fmt.Errorf("%w; or ask it: report -config FILE, or GET /api/v1/report", err)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, closeHistory()) }()
	if start, end, err = completePeriod(start, end, h.Journal); err != nil {
		return err
	}
	r, err := report.Reconcile(ctx, h, start, end, report.DefaultOptions())
	if err == nil && *again {
		err = suggestShown(ctx, h, pipeline, sc.SeriesPerClass(), r, std.err)
	}
	if err != nil {
		return err
	}
	return writeTo(*out, std.out, func(w io.Writer) error { return page.write(w, r) })
}

// page is a form that a report is written in.
type page struct {
	contentType string
	write       func(io.Writer, *report.Report) error
}

// reportPage is the form of that name.
func reportPage(format string) (page, error) {
	switch format {
	case "", "md":
		return page{"text/markdown; charset=utf-8", report.WriteMarkdown}, nil
	case "json":
		return page{typeJSON, report.WriteJSON}, nil
	case "html":
		return page{"text/html; charset=utf-8", report.WriteHTML}, nil
	}
	return page{}, fmt.Errorf("is %q: it must be md, json or html", format)
}

// askDaemon copies what a running daemon answers.
func askDaemon(ctx context.Context, w io.Writer, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the daemon that holds the data directory does not answer: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1024)) // the status says enough
		err := fmt.Errorf("the daemon answers %s: %s", res.Status, bytes.TrimSpace(body))
		if res.StatusCode == http.StatusBadRequest {
			return usageError{err}
		}
		return err
	}
	_, err = io.Copy(w, res.Body)
	return err
}

// checkDataDir sees that dir is a daemon's, before anything is made in it.
func checkDataDir(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "journal")); err != nil {
		return usagef("%s is no data directory: %w; name the storage.dir of a daemon that has run with -data or -config", dir, err)
	}
	return nil
}

// openHistory opens a data directory that no daemon holds.
func openHistory(c storage.Config) (storage.History, func() error, error) {
	var h storage.History
	lock, err := storage.Lock(c.Dir)
	if err != nil {
		return h, nil, err
	}
	quiet := slogFrom(zap.NewNop())
	if h.Store, err = storage.OpenStore(c, quiet); err != nil {
		return h, nil, errors.Join(err, lock.Unlock())
	}
	if h.Journal, err = storage.OpenJournal(filepath.Join(c.Dir, "journal"), quiet); err != nil {
		return h, nil, errors.Join(err, h.Store.Close(), lock.Unlock())
	}
	return h, func() error { return errors.Join(h.Journal.Close(), h.Store.Close(), lock.Unlock()) }, nil
}

// parsePeriod reads the ends of a period; what is left out is zero.
func parsePeriod(from, to string) (start, end time.Time, err error) {
	if start, err = parseTime("-from", from); err != nil {
		return
	}
	if end, err = parseTime("-to", to); err == nil && !start.IsZero() && !end.IsZero() {
		err = checkPeriod(start, end)
	}
	return
}

func checkPeriod(start, end time.Time) error {
	switch {
	case !start.Before(end):
		return usagef("the period is empty: -from %s is not before -to %s", start.Format(time.RFC3339), end.Format(time.RFC3339))
	case end.Sub(start) > report.MaxDays*24*time.Hour:
		return usagef("the period is too long: -from %s to -to %s must be at most %d days; report part by part", start.Format(time.RFC3339), end.Format(time.RFC3339), report.MaxDays)
	}
	return nil
}

// completePeriod fills in what was left out: up to the newest decision, a week long.
func completePeriod(start, end time.Time, j *storage.Journal) (time.Time, time.Time, error) {
	if end.IsZero() {
		last, ok := j.Last()
		if !ok {
			return start, end, errors.New("the journal is empty: no decision was made yet in this data directory")
		}
		end = last.Tick
	}
	if start.IsZero() {
		start = end.Add(-week)
	}
	return start, end, checkPeriod(start, end)
}

func parseTime(name, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, usagef("%s is %q: write RFC 3339, such as 2026-03-02T07:00:00Z, or a date", name, s)
}

// writeTo writes a file whole, or to w when no path is given.
func writeTo(path string, w io.Writer, write func(io.Writer) error) error {
	if path == "" {
		return write(w)
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
