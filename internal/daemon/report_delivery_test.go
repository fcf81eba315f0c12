package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/internal/testenv"
)

// inbox is a mail server that keeps its mails.
type inbox struct {
	mails chan string
	port  int
}

func startInbox(t *testing.T) *inbox {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	box := &inbox{mails: make(chan string, 8), port: listener.Addr().(*net.TCPAddr).Port}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return box, nil }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close
	}()
	t.Cleanup(func() {
		_ = server.Close()
		_ = listener.Close() // server.Close does not close it before Serve has begun
		<-done
	})
	return box
}

func (*inbox) Reset()                               {}
func (*inbox) Logout() error                        { return nil }
func (*inbox) Mail(string, *smtp.MailOptions) error { return nil }
func (*inbox) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (b *inbox) Data(r io.Reader) error {
	mail, err := io.ReadAll(r)
	b.mails <- string(mail)
	return err
}

// TestReportIsDelivered: folder, webhook and mailbox each get the report once, although the webhook fails at first, and
// the process stops before it has stored that the report was made.
func TestReportIsDelivered(t *testing.T) {
	t.Parallel()
	box := startInbox(t)
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
		fmt.Sprintf("report: {mail: {host: localhost, port: %d, tls: none, from: fw@example.org, to: [ops@example.org]}}", box.port),
	}
	p := startDaemonIn(t, dir, lines...)
	if at, err := p.Daemon.reported(); err != nil || time.Since(at) > 5*time.Minute {
		t.Errorf("a first start reports the time before it, since %s: %v", at, err)
	}
	to := time.Now().UTC().Truncate(time.Hour)
	period := report.Span{From: to.AddDate(0, 0, -7), To: to, Zone: time.UTC}
	if err := p.Daemon.reporter.make(t.Context(), period); err != nil {
		t.Fatal(err)
	}
	mail := <-box.mails
	if !strings.Contains(mail, "multipart/alternative") || !strings.Contains(mail, "Subject: Forewarm report, ") {
		t.Error(mail)
	}
	name := "report-" + to.Format("2006-01-02T1504Z")
	sent := func(sink string) float64 {
		return testenv.Metric(t, p.base, fmt.Sprintf("forewarm_sink_sent_total{sink=%q}", sink))
	}
	testenv.Await(t, "folder and mail", func() bool {
		return sent("report/folder") == 1 && sent("report/mail") == 1 && refusals.Load() > 0
	})
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
	if hooks.Load() != 1 || sent("report/mail")+sent("report/folder") > 0 || len(box.mails) > 0 {
		t.Error("a report was delivered twice")
	}
	if err := p.Daemon.reporter.make(t.Context(), period); err != nil { // as after a crash before the report was stored as made
		t.Fatal(err)
	}
	p.stop()
	if hooks.Load() != 1 || len(box.mails) > 0 {
		t.Error("a report that was made again was delivered again")
	}
}
