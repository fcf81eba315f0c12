package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage"
)

const (
	reportEvery = time.Second     // between two checks for a due report; time of traffic may pass faster than the clock
	reportPause = 5 * time.Minute // between two attempts to make a report
)

// reporter makes reports when they are due. Its effects are functions, so that tests can replace them.
type reporter struct {
	schedule *report.Schedule
	settle   time.Duration // time from a period's end until its demand is settled
	instance string        // unique to this daemon

	clock        func() time.Time                       // see Daemon.reportClock
	lastReported func() (reported time.Time, err error) // see Daemon.reported
	reconcile    func(ctx context.Context, n *alerting.Report) (*report.Report, error)
	// store keeps the files of a report, and its notice in the log.
	store func(ctx context.Context, n *alerting.Report, r *report.Report) error
	note  func(err error) // of an attempt; nil if it succeeded
	log   *zap.Logger

	reported time.Time // owned by Run; zero until it is known
}

// Run makes reports until ctx ends.
func (r *reporter) Run(ctx context.Context) error {
	var retry time.Time // of the next attempt after a failure
	for sleep.For(ctx, reportEvery) {
		now := r.clock()
		if now.IsZero() || time.Now().Before(retry) {
			continue
		}
		err := r.makeDue(ctx, now.Add(-r.settle))
		if ctx.Err() != nil {
			break
		}
		r.note(err)
		if err != nil {
			retry = time.Now().Add(reportPause)
		}
	}
	return nil
}

func (r *reporter) makeDue(ctx context.Context, at time.Time) error {
	if r.reported.IsZero() {
		reported, err := r.lastReported()
		if err != nil {
			return fmt.Errorf("the newest one cannot be read: %w", err)
		}
		r.reported = reported
	}
	p, due := r.schedule.Due(r.reported, at)
	if !due {
		return nil
	}
	if err := r.makeReport(ctx, p); err != nil {
		return err
	}
	r.reported = p.To
	return nil
}

// makeReport makes the report of a period and notifies the sinks.
func (r *reporter) makeReport(ctx context.Context, p report.Span) error {
	n := &alerting.Report{Name: "report-" + p.To.UTC().Format("2006-01-02T1504Z"), From: p.From.UTC(), To: p.To.UTC()}
	n.When = alerting.Period(p.From.In(p.Zone), p.To, "2 Jan 2006")
	hash := sha256.Sum256([]byte(r.instance + n.From.Format(time.RFC3339)))
	n.ID = fmt.Sprintf("%s-%x", n.Name, hash[:8])
	x, err := r.reconcile(ctx, n)
	if err != nil {
		return err
	}
	n.Summary = x.Summary
	if err := r.store(ctx, n, x); err != nil {
		return err
	}
	r.log.Info("report made", zap.String("report", n.Name), zap.Strings("summary", n.Summary))
	return nil
}

func (d *Daemon) openReporter() error {
	zone, err := time.LoadLocation(d.cfg.Report.Timezone)
	if err != nil {
		return err
	}
	schedule, err := report.NewSchedule(d.cfg.Report.Schedule, zone)
	if err != nil {
		return fmt.Errorf("report.schedule: %w", err)
	}
	d.reporter = &reporter{
		schedule: schedule, settle: d.cfg.Features.Revise + features.Minute, log: d.log,
		instance: fmt.Sprintf("%s %d", d.stream.Load().Config.Name, d.stream.Load().Created.UnixNano()),
		clock:    d.reportClock, lastReported: d.reported, reconcile: d.reconcile,
		store: d.storeReport, note: func(err error) { d.note(d.failedWrites, "report", err) },
	}
	d.sources = append(d.sources, d.reporter.Run)
	return nil
}

func (d *Daemon) reconcile(ctx context.Context, n *alerting.Report) (*report.Report, error) {
	span := report.Span{From: n.From, To: n.To, Zone: d.reporter.schedule.Location}
	return report.Reconcile(ctx, stored{storage.History{Series: d.store}, d.reader}, span)
}

// reportPage makes a report again, to deliver it in a format.
func (d *Daemon) reportPage(ctx context.Context, n *alerting.Report, format string) ([]byte, error) {
	r, err := d.reconcile(ctx, n)
	if err != nil {
		return nil, err
	}
	return report.Render(r, format)
}

// storeReport writes the files of a report, and then its notice to the log: until that is there, a report is made again.
func (d *Daemon) storeReport(ctx context.Context, n *alerting.Report, r *report.Report) error {
	for _, format := range []string{"md", "json", "html"} {
		page, err := report.Render(r, format)
		if err != nil {
			return err
		}
		err = storage.WriteFile(filepath.Join(d.cfg.ReportDir(), n.Name+"."+format), page)
		if err != nil {
			return fmt.Errorf("report.dir %s: %w; make room in it, or make it writable", d.cfg.ReportDir(), err)
		}
	}
	return d.decisions.AddNotice(ctx, alerting.Notice{Report: n})
}

// reportClock is the time of the newest tick; zero before the first.
func (d *Daemon) reportClock() time.Time { return locked(d, &d.status.Tick) }

// reported returns the end of the newest reported period. Before the first report it is now, or on the event clock the
// first tick since the start.
func (d *Daemon) reported() (at time.Time, err error) {
	r, err := d.decisions.Reported(context.Background())
	switch {
	case r != nil:
		at = r.To
	case d.cfg.Clock == pipeline.WallClock:
		at = time.Now()
	default:
		at = locked(d, &d.firstTick)
	}
	return at, err
}

// getReport answers with the report of the queried period, by default the last week that has settled.
func (d *Daemon) getReport(r *http.Request, format string) ([]byte, error) {
	newest := locked(d, &d.status.Tick)
	if newest.IsZero() {
		newest = d.loggedTick
	}
	if newest.IsZero() && r.FormValue("to") == "" {
		return nil, server.Problemf(http.StatusNotFound, "the log has no decision yet")
	}
	newest = newest.Add(-d.cfg.Features.Revise) // unsettled minutes would count as missing
	span, err := report.ParseSpan(r.FormValue("from"), r.FormValue("to"), cmp.Or(r.FormValue("timezone"), d.cfg.Report.Timezone), newest)
	if err != nil {
		return nil, server.Problemf(http.StatusBadRequest, "%v", err)
	}
	rep, err := report.Reconcile(r.Context(), stored{storage.History{Series: d.store}, d.reader}, span)
	if err != nil {
		return nil, err
	}
	return report.Render(rep, format)
}
