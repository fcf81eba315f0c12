package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forewarm/forewarm/alerting"
)

// Pages are a report as it is delivered.
type Pages struct {
	Markdown []byte `cbor:"1,keyasint"`
	JSON     []byte `cbor:"2,keyasint"`
	HTML     []byte `cbor:"3,keyasint"`
	// MailText and MailHTML are its first page, for readers of mail.
	MailText []byte `cbor:"4,keyasint"`
	MailHTML []byte `cbor:"5,keyasint"`
}

// maxEmbedded bounds the report that goes along with a webhook's event; larger ones are named only.
const maxEmbedded = 1 << 20

func (s *Webhook) reportEvent(r *alerting.Report) ([]byte, error) {
	pages, err := s.pages(r)
	if err != nil {
		return nil, err
	}
	full := pages.JSON
	if len(full) > maxEmbedded {
		full = nil
	}
	return json.Marshal(alerting.NewReportEvent(r, full))
}

// ReportConfig says where reports are delivered beside webhooks.
type ReportConfig struct {
	Dir  string     `yaml:"dir"` // "" is reports/ in the storage directory
	Mail MailConfig `yaml:"mail"`
}

// ReportDeps is what the destinations of reports need from the process.
type ReportDeps struct {
	// Pages gives the pages of a report that is to be delivered; alerting.Permanent where they are gone.
	Pages     func(*alerting.Report) (*Pages, error)
	WriteFile func(path string, data []byte) error // whole or not at all, and durably
}

// OpenReports builds the configured destinations of reports: a folder always, and what else c names. It connects to
// nothing. Errors name the key, its value and the mend.
func OpenReports(c ReportConfig, deps ReportDeps) ([]alerting.Sink, error) {
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

// probed is a sink that can say whether it would deliver.
type probed interface {
	alerting.Sink
	Probe(ctx context.Context) (detail string, err error)
}

// Probe asks each sink that can say so whether it would deliver, and tells what it said. Nothing is delivered.
func Probe(ctx context.Context, sinks []alerting.Sink, found func(sink, detail string, err error)) {
	for _, s := range sinks {
		if p, ok := s.(probed); ok {
			detail, err := p.Probe(ctx)
			found(s.Name(), detail, err)
		}
	}
}

// folder writes reports to a directory.
type folder struct {
	dir  string
	deps ReportDeps
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
	for extension, data := range map[string][]byte{".md": pages.Markdown, ".json": pages.JSON, ".html": pages.HTML} {
		if err := s.deps.WriteFile(filepath.Join(s.dir, n.Report.Name+extension), data); err != nil {
			return fmt.Errorf("report.dir %s: %w; make room in it, or make it writable", s.dir, err)
		}
	}
	return nil
}

// Probe writes a file, and removes it: into the folder, or where that would be made.
func (s *folder) Probe(context.Context) (string, error) {
	dir := s.dir
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".forewarm-check-*")
	if err != nil {
		return "", fmt.Errorf("report.dir %s: %w; make it writable, or name another", s.dir, err)
	}
	return s.dir + " can be written", errors.Join(f.Close(), os.Remove(f.Name()))
}
