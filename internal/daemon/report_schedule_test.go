package daemon

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/storage"
	"github.com/forewarm/forewarm/storage/stream"
)

// TestReportOtherSettingsOnSchedule: a daemon that was away when its weekly report was due makes it, and says on its pages why
// nothing could be tried.
func TestReportOtherSettingsOnSchedule(t *testing.T) {
	due := time.Now().UTC().Add(-3 * time.Hour).Truncate(time.Minute)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	fillClasses(t, data, due.AddDate(0, 0, -3), due, map[string]func(int) float64{
		"agent": func(m int) float64 { return 900 * noise(m, .05) },
	})
	site := openSite(t, data)
	must(jetstream.EnsureDecisions(t.Context(), site.js, jetstream.DefaultConfig()))
	log := stream.NewLog(site.js, stream.Config{Stream: jetstream.DecisionsStream, Prefix: "forewarm"}, time.Time{}, time.Time{}, nil)
	if err := log.Tell(t.Context(), alerting.Notice{Report: &alerting.Report{ID: "before", To: due.AddDate(0, 0, -7)}}); err != nil {
		t.Fatal(err)
	}
	site.close()
	box := startInbox(t)
	p := startDaemonIn(t, dir, soundPool, "log: {level: error}",
		fmt.Sprintf("report: {schedule: '%d %d * * %d', timezone: UTC, mail: {host: localhost, port: %d, tls: none, from: fw@example.org, to: [ops@example.org]}}",
			due.Minute(), due.Hour(), due.Weekday(), box.port))
	mail := strings.ReplaceAll(<-box.mails, "=\r\n", "") // quoted-printable
	if !strings.Contains(mail, "Forewarm") {
		t.Errorf("the mail has no report: %s", mail)
	}
	name := filepath.Join(data, "reports", "report-"+due.Format("2006-01-02T1504Z"))
	testenv.Await(t, "the folder", func() bool {
		_, err := os.Stat(name + ".html")
		return err == nil && p.Daemon.reporter.made.Load() == 1
	})
	page, err := os.ReadFile(name + ".html")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"What would another setting have cost", "No other setting was tried", "knew the capacity of a replica"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	text, err := os.ReadFile(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Pools []struct {
			Note string `json:"other_settings_note"`
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if note := r.Pools[0].Note; !strings.Contains(note, "No other setting was tried") {
		t.Errorf("note %q", note)
	}
	if r, err := p.decisions.Reported(t.Context()); err != nil || r == nil || !r.To.Equal(due) {
		t.Errorf("reported is %+v, %v; want what ends at %v", r, err, due)
	}
}

// fillClasses stores what classes of pool chat generated in [from, to), in tokens/s.
func fillClasses(t *testing.T, dir string, from, to time.Time, classes map[string]func(m int) float64) {
	t.Helper()
	c := storage.DefaultConfig()
	c.Dir = dir
	store := must(storage.OpenStore(c, slog.New(slog.DiscardHandler)))
	const batch = 30 // minutes, for there is nobody to wait for each
	for at := from; at.Before(to); at = at.Add(batch * time.Minute) {
		var windows []features.Window
		for m := range batch {
			start := at.Add(time.Duration(m) * time.Minute)
			for class, of := range classes {
				windows = append(windows, features.Window{
					Key: features.Key{Pool: "chat", Class: class}, Start: start, Covered: true, Settled: true, Records: 1, OutputKnown: 1, OutputTokens: 60 * of(int(start.Sub(from)/time.Minute)),
				})
			}
		}
		if err := store.Append(at.Add(batch*time.Minute), windows, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// noise is a factor that depends on the minute alone.
func noise(m int, sd float64) float64 {
	return 1 + sd*rand.New(rand.NewPCG(1, uint64(m))).NormFloat64()
}
