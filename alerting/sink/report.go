package sink

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/forewarm/forewarm/alerting"
)

// maxEmbedded bounds the report in a webhook's event, in bytes; the event leaves out a larger one.
const maxEmbedded = 1 << 20

// folder writes reports to Deps.ReportDir.
type folder struct{ deps Deps }

func (*folder) Name() string { return "report/folder" }

// Accepts is true for reports.
func (*folder) Accepts(n alerting.Notice) bool { return n.Report != nil }

// Send writes the files; those of an earlier attempt have the same names.
func (s *folder) Send(ctx context.Context, n alerting.Notice) error {
	for _, format := range []string{"md", "json", "html"} {
		page, err := s.deps.Page(ctx, n.Report, format)
		if err != nil {
			return err
		}
		if err := s.deps.WriteFile(filepath.Join(s.deps.ReportDir, n.Report.Name+"."+format), page); err != nil {
			return fmt.Errorf("report.dir %s: %w; make room in it, or make it writable", s.deps.ReportDir, err)
		}
	}
	return nil
}
