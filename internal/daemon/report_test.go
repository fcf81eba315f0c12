package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
)

// testReporter is a reporter with a fake clock, log and renderer. The time of the last report is in a file in dir, so
// that a second testReporter continues as after a restart.
type testReporter struct {
	*reporter
	dir    string
	sent   []string // periods
	titles []string
	broken error
	lag    time.Duration // of the pipeline behind the clock
	full   bool          // the log cannot be written
	failed int           // attempts
}

func newTestReporter(t *testing.T, dir, expression, zone string) *testReporter {
	t.Helper()
	z := must(time.LoadLocation(zone))
	schedule := must(report.NewSchedule(expression, z))
	first := time.Now()
	d := &testReporter{dir: dir}
	d.reporter = &reporter{
		schedule: schedule, settle: 10 * time.Minute, log: zap.NewNop(), instance: "forewarm 1",
		clock: func() time.Time { return time.Now().Add(-d.lag) },
		lastReported: func() (time.Time, error) {
			b, err := os.ReadFile(filepath.Join(dir, "log")) // in place of the log
			if err != nil {
				return first, os.WriteFile(filepath.Join(dir, "log"), first.AppendFormat(nil, time.RFC3339), 0o600)
			}
			return time.Parse(time.RFC3339, string(b))
		},
		note: func(err error) {
			if err != nil {
				d.failed++
			}
		},
		reconcile: func(context.Context, *alerting.Report) (*report.Report, error) { return &report.Report{}, d.broken },
		store: func(_ context.Context, n *alerting.Report, _ *report.Report) error {
			if d.full {
				return errors.New("no space left on device")
			}
			d.sent = append(d.sent, n.From.Format("2 Jan 15:04")+" to "+n.To.Format("2 Jan 15:04"))
			d.titles = append(d.titles, n.When)
			return os.WriteFile(filepath.Join(dir, "log"), n.To.AppendFormat(nil, time.RFC3339), 0o600)
		},
	}
	return d
}

// runFor runs the reporter for a span of the fake time.
func (d *testReporter) runFor(t *testing.T, span time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	_ = d.Run(ctx) // always nil
	synctest.Wait()
}

// The fake time of synctest starts at 2000-01-01 00:00 UTC, a Saturday.

// TestReporterOnSchedule: periods and titles follow the time zone of the schedule.
func TestReporterOnSchedule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newTestReporter(t, dir, "30 2 * * 0", "Europe/Berlin")
		d.runFor(t, 9*24*time.Hour)
		want := []string{"26 Dec 01:30 to 2 Jan 01:30", "2 Jan 01:30 to 9 Jan 01:30"}
		if diff := cmp.Diff(want, d.sent); diff != "" {
			t.Errorf("−want +got:\n%s", diff)
		}
		titles := []string{"26 Dec 1999 02:30 to 2 Jan 2000 02:30 Europe/Berlin", "2 Jan 2000 02:30 to 9 Jan 2000 02:30 Europe/Berlin"}
		if diff := cmp.Diff(titles, d.titles); diff != "" {
			t.Error(diff)
		}
	})
}

// TestReporterOnTheEventClock: on the event clock, periods follow the time of the traffic. If a day is replayed in a
// minute, there is a daily report each minute.
func TestReporterOnTheEventClock(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newTestReporter(t, dir, "0 7 * * *", "UTC")
		began, first := time.Now(), time.Date(2024, 5, 12, 0, 0, 0, 0, time.UTC)
		d.lastReported = func() (time.Time, error) { return first, nil }
		d.clock = func() time.Time {
			if time.Since(began) < 20*time.Second {
				return time.Time{} // no tick yet
			}
			return first.Add((time.Since(began) - 20*time.Second) * 60 * 24) // a day a minute
		}
		d.runFor(t, 3*time.Minute+20*time.Second)
		want := []string{"11 May 07:00 to 12 May 07:00", "12 May 07:00 to 13 May 07:00", "13 May 07:00 to 14 May 07:00"}
		if diff := cmp.Diff(want, d.sent); diff != "" {
			t.Errorf("−want +got:\n%s", diff)
		}
	})
}

// TestReporterSettles: a report is made only after its minutes have settled, and the pipeline has read them.
func TestReporterSettles(t *testing.T) {
	for name, c := range map[string]struct {
		lag    time.Duration
		before time.Duration // no report until then
		after  time.Duration // a report until then
	}{
		"no lag": {0, 10 * time.Minute, 11 * time.Minute},
		"behind": {30 * time.Minute, 40 * time.Minute, 41 * time.Minute},
	} {
		dir := t.TempDir()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newTestReporter(t, dir, "0 1 * * *", "UTC")
				d.lag = c.lag
				d.runFor(t, time.Hour+c.before-time.Second)
				if len(d.sent) > 0 {
					t.Error("the report is too early")
				}
				d.runFor(t, c.after-c.before)
				if diff := cmp.Diff([]string{"31 Dec 01:00 to 1 Jan 01:00"}, d.sent); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestReporterCatchesUpOnce: after a downtime only the newest period is reported, and none twice.
func TestReporterCatchesUpOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		run := func(span time.Duration) *testReporter {
			d := newTestReporter(t, dir, "0 7 * * 1", "UTC")
			d.runFor(t, span)
			return d
		}
		if d := run(time.Hour); len(d.sent) > 0 {
			t.Errorf("the first start reports the time before it: %v", d.sent)
		}
		time.Sleep(24 * 24 * time.Hour) // three Mondays
		d := run(time.Minute)
		if diff := cmp.Diff([]string{"17 Jan 07:00 to 24 Jan 07:00"}, d.sent); diff != "" {
			t.Error(diff)
		}
		for range 2 {
			if d := run(time.Minute); len(d.sent) > 0 {
				t.Errorf("a restart reports again: %v", d.sent)
			}
		}
	})
}

// TestReporterCrash: a report that could not be stored is made again after a restart.
func TestReporterCrash(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newTestReporter(t, dir, "0 1 * * *", "UTC")
		d.runFor(t, time.Minute)
		d.full = true
		d.runFor(t, 2*time.Hour)
		again := newTestReporter(t, dir, "0 1 * * *", "UTC")
		again.runFor(t, time.Minute)
		if diff := cmp.Diff([]string{"31 Dec 01:00 to 1 Jan 01:00"}, again.sent); diff != "" || len(d.sent) > 0 {
			t.Error(diff)
		}
	})
}

// TestReporterRetries: a report that fails is made again every few minutes.
func TestReporterRetries(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newTestReporter(t, dir, "0 1 * * *", "UTC")
		d.broken = errors.New("history: input/output error")
		d.runFor(t, 80*time.Minute+time.Second)
		if d.failed != 3 || len(d.sent) > 0 {
			t.Errorf("%d attempts in ten minutes, want 3", d.failed)
		}
		d.broken = nil
		d.runFor(t, 6*time.Minute)
		if len(d.sent) != 1 {
			t.Error("the report was not made after a failure")
		}
	})
}
