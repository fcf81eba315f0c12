package sink

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/forewarm/forewarm/alerting"
)

// Formats of a report that are delivered: mail.txt and mail.html are its first page.
var Formats = []string{"md", "json", "html", "mail.txt", "mail.html"}

// Pages are the pages of a report, by format.
type Pages map[string][]byte

// maxEmbedded bounds the report in a webhook's event, in bytes; the event leaves out a larger one.
const maxEmbedded = 1 << 20

// ReportConfig is where reports are delivered, besides webhooks.
type ReportConfig struct {
	Dir  string     `yaml:"dir"` // "" is reports/ in the storage directory
	Mail MailConfig `yaml:"mail"`
}

// OpenReports builds the destinations of reports: always a folder, and mail if configured. It connects to nothing.
// Errors name the key, its value and the fix.
func OpenReports(c ReportConfig, deps Deps) ([]alerting.Sink, error) {
	sinks := []alerting.Sink{&folder{c.Dir, deps}}
	if c.Mail.Host != "" || len(c.Mail.To) > 0 {
		m, err := newMailer(c.Mail, deps)
		if err != nil {
			return nil, fmt.Errorf("report.mail.%w", err)
		}
		sinks = append(sinks, m)
	}
	return sinks, nil
}

// folder writes reports to a directory.
type folder struct {
	dir  string
	deps Deps
}

// Name is "report/folder".
func (*folder) Name() string { return "report/folder" }

// Accepts is true for reports.
func (*folder) Accepts(n alerting.Notice) bool { return n.Report != nil }

// Send writes the files; those of an earlier attempt have the same names.
func (s *folder) Send(_ context.Context, n alerting.Notice) error {
	pages, err := s.deps.Pages(n.Report)
	if err != nil {
		return err
	}
	for _, format := range []string{"md", "json", "html"} {
		if err := s.deps.WriteFile(filepath.Join(s.dir, n.Report.Name+"."+format), pages[format]); err != nil {
			return fmt.Errorf("report.dir %s: %w; make room in it, or make it writable", s.dir, err)
		}
	}
	return nil
}
