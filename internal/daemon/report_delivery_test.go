package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestReportIsDelivered: the folder has the report, and the webhook gets it once, although the webhook fails at first, and
// the process stops before it has stored that the report was made.
func TestReportIsDelivered(t *testing.T) {
	t.Parallel()
	var hooks, refusals atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if refusals.Add(1) == 1 {
			w.Header().Set("Retry-After", "600") // longer than this daemon runs
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		if r.Header.Get("webhook-signature") == "" || !bytes.Contains(body, []byte(`"forewarm.report.v1"`)) {
			t.Errorf("%v %s", r.Header, body)
		}
		hooks.Add(1)
	}))
	defer hook.Close()
	dir := t.TempDir()
	keys := testenv.WriteFile(t, filepath.Join(dir, "keys"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	lines := []string{
		onePool, "log: {level: error}",
		"sinks: {webhooks: [{name: ops, url: '" + hook.URL + "', secret_file: '" + keys + "', send: [reports]}]}",
	}
	p := startDaemonIn(t, dir, lines...)
	if at, err := p.Daemon.reported(); err != nil || time.Since(at) > 5*time.Minute {
		t.Errorf("a first start reports the time before it, since %s: %v", at, err)
	}
	to := time.Now().UTC().Truncate(time.Hour)
	period := report.Span{From: to.AddDate(0, 0, -7), To: to, Zone: time.UTC}
	if err := p.Daemon.reporter.makeReport(t.Context(), period); err != nil {
		t.Fatal(err)
	}
	name := "report-" + to.Format("2006-01-02T1504Z")
	sent := func(sink string) float64 {
		return testenv.Metric(t, p.base, fmt.Sprintf("forewarm_sink_sent_total{sink=%q}", sink))
	}
	testenv.Await(t, "the webhook", func() bool { return refusals.Load() > 0 })
	for _, extension := range []string{".md", ".json", ".html"} {
		file, err := os.ReadFile(filepath.Join(p.data, "reports", name+extension))
		if err != nil || len(file) == 0 {
			t.Errorf("%d bytes, %v", len(file), err)
		}
	}

	// After a restart only the webhook, which has not got it, gets the report.
	p.stop()
	p = startDaemonIn(t, dir, lines...)
	testenv.Await(t, "the webhook to get it", func() bool { return sent("webhook/ops") == 1 })
	if hooks.Load() != 1 {
		t.Error("a report was delivered twice")
	}
	if err := p.Daemon.reporter.makeReport(t.Context(), period); err != nil { // as after a crash before the report was stored as made
		t.Fatal(err)
	}
	p.stop()
	if hooks.Load() != 1 {
		t.Error("a report that was made again was delivered again")
	}
}
