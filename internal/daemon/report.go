package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/alerting/sink"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
)

const (
	// reportEvery is how often the reporter checks the clock. A single timer would miss a sleep of the machine, or a
	// change of its clock.
	reportEvery = time.Minute
	// reportMaxWait is how long a report waits for a pipeline that is behind.
	reportMaxWait = time.Hour
	// reportPause is the time between two attempts to make a report.
	reportPause = 5 * time.Minute
)

// reporter makes reports when they are due. Its effects are functions, so that tests can replace them.
type reporter struct {
	schedule *report.Schedule
	settle   time.Duration // time from a period's end until its demand is settled
	instance string        // unique to this daemon
	suffix   string        // of names, for the partition

	event        bool                                   // periods follow the newest tick, not the wall clock
	began        func() time.Time                       // the first tick of this process, or zero
	newestTick   func() time.Time                       // the newest tick
	lastReported func() (reported time.Time, err error) // end of the newest period in the log, or zero
	render       func(ctx context.Context, p report.Period) (*sink.Pages, []string, error)
	store        func(ctx context.Context, n alerting.Notice, pages *sink.Pages) error // stores the notice in the log
	log          *zap.Logger

	made, failed, missed atomic.Uint64

	reported time.Time // owned by Run; zero until the clock is known
	retry    time.Time // wall clock of the next attempt after a failure
}

// Run makes reports until ctx ends.
func (r *reporter) Run(ctx context.Context) error {
	every := reportEvery
	if r.event { // the time of the traffic can pass much faster
		every = time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		for r.makeDue(ctx) { // a replay can pass several periods at once
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// clock returns the time for the schedule. It is zero if the pipeline's clock is used and had no tick yet.
func (r *reporter) clock() time.Time {
	if r.event {
		return r.newestTick()
	}
	return time.Now()
}

// makeDue makes a report if one is due, and reports whether it did.
func (r *reporter) makeDue(ctx context.Context) (made bool) {
	now := r.clock()
	if r.reported.IsZero() {
		first := now
		if r.event { // a replay can pass several periods before the first check
			first = r.began()
		}
		if first.IsZero() {
			return false
		}
		var err error
		if r.reported, err = r.lastReported(); err != nil {
			r.log.Error("the newest report could not be read; retrying", zap.Error(err))
			r.reported = time.Time{}
			return false
		}
		if r.reported.IsZero() { // nothing to report before the first start
			r.reported = first
		}
	}
	p, missed, due := r.schedule.Due(r.reported, now.Add(-r.settle))
	if due && r.event && 0 < missed && missed < 100 { // event clock: each missed period gets its report
		p, missed, due = r.schedule.Due(r.reported, r.schedule.Next(r.reported))
	}
	switch {
	case !due || time.Now().Before(r.retry):
		return false
	case r.newestTick().Before(p.To.Add(r.settle)) && now.Before(p.To.Add(r.settle+reportMaxWait)):
		return false // messages that arrived meanwhile are still being applied
	}
	if err := r.make(ctx, p); err != nil {
		if ctx.Err() == nil {
			r.failed.Add(1)
			r.retry = time.Now().Add(reportPause)
			r.log.Error("a due report could not be made; retrying", zap.Time("from", p.From), zap.Time("to", p.To), zap.Error(err))
		}
		return false
	}
	r.made.Add(1)
	if r.missed.Add(uint64(missed)); missed > 0 {
		r.log.Warn("reports were missed while the daemon was away; the newest is made, for the others ask forewarm report -from -to",
			zap.Int("missed", missed), zap.Time("since", r.reported))
	}
	r.reported = p.To
	return true
}

// make makes the report of a period and notifies the sinks.
func (r *reporter) make(ctx context.Context, p report.Period) error {
	pages, summary, err := r.render(ctx, p)
	if err != nil {
		return err
	}
	n := &alerting.Report{Name: "report-" + p.To.UTC().Format("2006-01-02T1504Z") + r.suffix, From: p.From.UTC(), To: p.To.UTC(), Summary: summary}
	n.When = alerting.Period(p.From.In(r.schedule.Zone()), p.To, "2 Jan 2006")
	n.ID = fmt.Sprintf("%s-%x", n.Name, sha256.Sum256([]byte(r.instance+n.From.Format(time.RFC3339))))[:len(n.Name)+17]
	if err := r.store(ctx, alerting.Notice{Report: n}, pages); err != nil {
		return err
	}
	r.log.Info("report made", zap.String("report", n.Name), zap.Strings("summary", summary))
	return nil
}

// openReporter prepares scheduled reports, and returns their sinks. On the event clock the schedule follows the time of
// the traffic.
func (d *Daemon) openReporter() ([]alerting.Sink, error) {
	if d.cfg.Report.Schedule == "" {
		return nil, nil
	}
	zone, err := time.LoadLocation(d.cfg.Report.Timezone)
	if err != nil {
		return nil, err
	}
	schedule, err := report.NewSchedule(d.cfg.Report.Schedule, zone)
	if err != nil {
		return nil, fmt.Errorf("report.schedule: %w", err)
	}
	suffix := ""
	if d.cfg.NATS.Partitioned() {
		suffix = "-partition-" + strings.ReplaceAll(d.cfg.NATS.Partition, "/", "-of-")
	}
	d.reporter = &reporter{
		schedule: schedule, event: d.cfg.Clock == pipeline.EventClock, settle: d.cfg.Features.Revise + d.cfg.Every, log: d.log,
		instance:     fmt.Sprintf("%s %d", d.stream.Load().Config.Name, d.stream.Load().Created.UnixNano()),
		began:        func() time.Time { return locked(d, &d.firstTick) },
		newestTick:   func() time.Time { return locked(d, &d.status.Tick) },
		suffix:       suffix,
		lastReported: d.reported,
		render:       d.renderReport,
		store:        d.storeReport,
	}
	return sink.OpenReports(d.cfg.Reports(), sink.Deps{Pages: d.pages, WriteFile: storage.WriteFile})
}

// renderReport makes all pages of a report.
func (d *Daemon) renderReport(ctx context.Context, p report.Period) (_ *sink.Pages, _ []string, err error) {
	ctx, span := d.tracer.Start(ctx, "report", trace.WithAttributes(attribute.String("forewarm.from", p.From.UTC().Format(time.RFC3339)), attribute.String("forewarm.to", p.To.UTC().Format(time.RFC3339))))
	defer func() { endSpan(span, err) }()
	h := storage.History{Store: d.store, Log: d.reader}
	r, err := report.Reconcile(ctx, h, p.From, p.To, d.reporter.schedule.Zone())
	if err != nil {
		return nil, nil, err
	}
	pages := &sink.Pages{}
	for _, x := range []struct {
		into  *[]byte
		write func(io.Writer, *report.Report) error
	}{
		{&pages.Markdown, report.WriteMarkdown}, {&pages.JSON, report.WriteJSON}, {&pages.HTML, report.WriteHTML},
		{&pages.MailText, report.WriteText}, {&pages.MailHTML, report.WriteMail},
	} {
		var b bytes.Buffer
		if err := x.write(&b, r); err != nil {
			return nil, nil, err
		}
		*x.into = b.Bytes()
	}
	return pages, r.Summary, nil
}

// reported returns the end of the newest reported period. On the wall clock, all time before the log counts as
// reported.
func (d *Daemon) reported() (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if r, err := d.decisions.Reported(ctx); r != nil || err != nil {
		if err != nil {
			return time.Time{}, err
		}
		return r.To, nil
	}
	if d.cfg.Clock == pipeline.EventClock {
		return time.Time{}, nil
	}
	log, err := d.js.Stream(ctx, d.cfg.NATS.Decisions())
	if err != nil {
		return time.Time{}, err
	}
	return log.CachedInfo().Created, nil
}

// rendered has the pages of a report.
type rendered struct {
	id    string
	pages *sink.Pages
}

// storeReport keeps a report's pages, and stores its notice.
func (d *Daemon) storeReport(ctx context.Context, n alerting.Notice, pages *sink.Pages) error {
	d.rendered.Store(&rendered{n.Report.ID, pages})
	err := d.decisions.AddNotice(ctx, n)
	d.noteWrite("report", err)
	return err
}

// pages returns the pages of a report to deliver. It renders them again if another daemon made the report, or this one
// before a restart.
func (d *Daemon) pages(n *alerting.Report) (*sink.Pages, error) {
	if last := d.rendered.Load(); last != nil && last.id == n.ID {
		return last.pages, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pages, _, err := d.renderReport(ctx, report.Period{From: n.From, To: n.To})
	if err == nil {
		d.rendered.Store(&rendered{n.ID, pages})
	}
	return pages, err
}

// getReport answers with the report of the queried period, by default the last week that has settled.
func (d *Daemon) getReport(w http.ResponseWriter, r *http.Request) error {
	write, contentType, err := report.FormatWriter(r.FormValue("format"))
	if err != nil {
		return server.Problemf(http.StatusBadRequest, "format %v", err)
	}
	span, err := report.ParseSpan(r.FormValue("from"), r.FormValue("to"), cmp.Or(r.FormValue("timezone"), d.cfg.Report.Timezone))
	if err != nil {
		return server.Problemf(http.StatusBadRequest, "%v", err)
	}
	newest, _, _, err := d.reader.Last(r.Context())
	if err != nil {
		return err
	}
	switch err := span.Complete(newest); {
	case errors.Is(err, report.ErrNoDecision):
		return server.Problemf(http.StatusNotFound, "%v", err)
	case err != nil:
		return server.Problemf(http.StatusBadRequest, "%v", err)
	case r.FormValue("to") == "": // unsettled minutes would count as missing
		span.To = span.To.Add(-d.cfg.Features.Revise)
	}
	rep, err := report.Reconcile(r.Context(), storage.History{Store: d.store, Log: d.reader}, span.From, span.To, span.Zone)
	if err != nil {
		return err
	}
	d.writeDocument(w, contentType, func() error { return write(w, rep) })
	return nil
}
