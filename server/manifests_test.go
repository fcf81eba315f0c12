package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// TestManifestQueries parses every PromQL expression of deploy/keda. Its metrics and labels must be in the exposition.
func TestManifestQueries(t *testing.T) {
	files, err := filepath.Glob("../deploy/keda/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	e := NewExporter("v1")
	out := fullOutput()
	for _, d := range out.Decisions() {
		d.Mode = "active"
	}
	e.Observe(out, time.Now())
	text, queries := exposition(e), 0
	line := regexp.MustCompile(`(?m)^\s*-? *(query|seriesQuery|metricsQuery): ['"]?(.*?)['"]?$`)
	for _, file := range files {
		manifest := must(os.ReadFile(file))
		series := ""
		for _, m := range line.FindAllSubmatch(manifest, -1) {
			queries++
			query := string(m[2])
			if string(m[1]) == "seriesQuery" {
				series, _, _ = strings.Cut(query, "{")
			}
			query = strings.NewReplacer("<<.Series>>", series, "<<.LabelMatchers>>", `pool="chat"`).Replace(query)
			expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
			if err != nil {
				t.Errorf("%s: %s: %v", file, query, err)
				continue
			}
			parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
				if v, ok := node.(*parser.VectorSelector); ok {
					checkSelector(t, file, text, v)
				}
				return nil
			})
		}
	}
	if queries < 3 {
		t.Errorf("%d queries found", queries)
	}
}

func checkSelector(t *testing.T, file, text string, v *parser.VectorSelector) {
	t.Helper()
	if !strings.Contains(text, "\n"+v.Name+"{") {
		t.Errorf("%s: there is no metric %s", file, v.Name)
	}
	for _, m := range v.LabelMatchers {
		if name := strings.TrimPrefix(m.Name, "exported_"); name != model.MetricNameLabel && !regexp.MustCompile(`(?m)^`+v.Name+`\{.*\b`+name+`="`).MatchString(text) {
			t.Errorf("%s: %s has no label %s", file, v.Name, name)
		}
	}
}
