package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/stream"
)

// TestMissedReportIsMade: a daemon was stopped when its weekly report was due. After its start it makes and delivers
// it.
func TestMissedReportIsMade(t *testing.T) {
	t.Parallel()
	due := time.Now().UTC().Add(-3 * time.Hour).Truncate(time.Minute)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	fillHistory(t, data, due.Add(-3*time.Hour), due)
	site := openOffline(t, data)
	must(jetstream.Ensure(t.Context(), site.js, jetstream.DefaultConfig()))
	log := stream.NewLog(site.js, stream.Config{Stream: "FOREWARM_DECISIONS", Prefix: "forewarm"}, time.Time{}, time.Time{}, nil)
	if err := log.AddNotice(t.Context(), alerting.Notice{Report: &alerting.Report{ID: "before", To: due.AddDate(0, 0, -7)}}); err != nil {
		t.Fatal(err)
	}
	site.close()
	p := startDaemonIn(t, dir, onePool, "log: {level: error}",
		fmt.Sprintf("report: {schedule: '%d %d * * %d', timezone: UTC}", due.Minute(), due.Hour(), due.Weekday()))
	name := filepath.Join(data, "reports", "report-"+due.Format("2006-01-02T1504Z"))
	testenv.Await(t, "the report in the log", func() bool { // it comes after the files
		r, err := p.decisions.Reported(t.Context())
		return err == nil && r != nil && r.To.Equal(due)
	})
	for _, format := range []string{".md", ".json", ".html"} {
		if _, err := os.Stat(name + format); err != nil {
			t.Error(err)
		}
	}
}

// fillHistory stores windows of a class of pool chat in [from, to).
func fillHistory(t *testing.T, dir string, from, to time.Time) {
	t.Helper()
	c := storage.DefaultConfig()
	c.Dir = dir
	store := must(storage.OpenStore(c, slog.New(slog.DiscardHandler)))
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		w := features.Window{Key: features.Key{Pool: "chat", Class: "agent"}, Start: at, Covered: true, Settled: true, Records: 1, Known: features.ReportsOutput, OutputTokens: 54_000}
		if err := store.Append(&pipeline.Output{Tick: at.Add(time.Minute), Windows: []features.Window{w}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
