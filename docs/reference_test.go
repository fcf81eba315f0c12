package docs_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/storage"
)

// TestGenerated compares the generated parts of the reference pages with the program:
// go test ./docs -run TestGenerated -update writes them.
func TestGenerated(t *testing.T) {
	url := startDaemon(t, "pools: [{name: chat, replicas: {max: 4}}]", "listeners: {http: {listen: '127.0.0.1:0'}}", "keda: {listen: '127.0.0.1:0'}",
		"scrape: {jobs: [{pool: chat, targets: ['127.0.0.1:1']}]}")
	var api document
	_, text := testenv.Get(url + "/api/v1/openapi.json")
	if err := json.Unmarshal([]byte(text), &api); err != nil {
		t.Fatal(err)
	}
	_, exposition := testenv.Get(url + "/metrics")
	source := parseSource(t)
	for page, parts := range map[string]map[string]string{
		"metrics.md":             {"metrics": source.metrics(t, exposition), "series": series()},
		"http-api.md":            {"operations": api.operations(), "schemas": api.schemas(source)},
		"subjects-and-events.md": {"prescale": source.structs(t, "alerting", "Prescale"), "alert": source.structs(t, "alerting", "AlertData"), "cloudevent": source.structs(t, "alerting", "CloudEvent")},
		"telemetry.md":           {"dimensions": dimensions(), "formats": formats()},
	} {
		old := read(t, page)
		text := old
		for name, part := range parts {
			begin, end := "<!-- generated: "+name+" -->\n", "<!-- end -->\n"
			before, rest, ok := strings.Cut(text, begin)
			_, after, closed := strings.Cut(rest, end)
			if !ok || !closed {
				t.Errorf("%s has no generated part %q", page, name)
				continue
			}
			text = before + begin + part + end + after
		}
		switch {
		case text == old:
		case *update:
			if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("%s differs from the program: go test ./docs -run TestGenerated -update", page)
		}
	}
}

// cell escapes text for a cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// fieldHelp is the comment of a field, without the field's name in Go.
func fieldHelp(f *ast.Field) string {
	help := cell(cmp.Or(f.Comment.Text(), f.Doc.Text()))
	for _, name := range f.Names {
		for _, begin := range []string{" is ", " are ", ": "} {
			help = strings.TrimPrefix(help, name.Name+begin)
		}
	}
	return help
}

// goSource is the production code of the repository.
type goSource map[string][]*ast.File // by folder

func parseSource(t *testing.T) goSource {
	t.Helper()
	source := goSource{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || path == filepath.Join(root, "deploy") || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		folder, _ := filepath.Rel(root, filepath.Dir(path))
		source[folder] = append(source[folder], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// text returns the literal parts of a constant string.
func text(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		return text(x.X) + text(x.Y)
	case *ast.CallExpr: // fmt.Sprintf
		if f, ok := x.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
			return text(x.Args[0])
		}
	}
	return ""
}

// metric is one row of the table of metrics.
type metric struct{ kind, help, labels string }

var (
	labelName = regexp.MustCompile(`([a-z_]+)=`)
	promHelp  = regexp.MustCompile(`(?m)^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n\w+(?:\{(.*)\})? `)
)

func labels(s string) string {
	var names []string
	for _, m := range labelName.FindAllStringSubmatch(s, -1) {
		names = append(names, "`"+m[1]+"`")
	}
	return strings.Join(names, ", ")
}

// metrics writes the table of metrics. Names and help are from the code: a literal name, followed by a literal help.
// Labels are from the name, from a golden file, or from a running daemon.
func (g goSource) metrics(t *testing.T, exposition string) string {
	all := map[string]metric{}
	for _, folder := range slices.Sorted(maps.Keys(g)) {
		for _, file := range g[folder] {
			ast.Inspect(file, func(n ast.Node) bool {
				var args []ast.Expr
				function := ""
				switch x := n.(type) {
				case *ast.CallExpr:
					args = x.Args
					switch f := x.Fun.(type) {
					case *ast.SelectorExpr:
						function = f.Sel.Name
					case *ast.Ident:
						function = f.Name
					}
				case *ast.CompositeLit:
					args = x.Elts
				}
				if len(args) < 2 || !strings.HasPrefix(text(args[0]), "forewarm_") {
					return true
				}
				name, rest, _ := strings.Cut(text(args[0]), "{")
				m := metric{kind: "gauge", help: text(args[1]), labels: labels(rest)}
				if slices.Contains([]string{"gauge", "untyped"}, m.help) && len(args) > 2 {
					m.help = text(args[2])
				}
				switch {
				case strings.HasSuffix(name, "_total"):
					m.kind = "counter"
				case function == "Histogram":
					m.kind = "histogram"
				}
				if folder != "storage" && strings.Contains(m.help, " ") {
					all[name] = m
				}
				return true
			})
		}
	}
	for _, m := range promHelp.FindAllStringSubmatch(exposition+read(t, root+"/server/testdata/gauges.txt"), -1) {
		if strings.HasPrefix(m[1], "forewarm_") && m[3] != "histogram" {
			all[m[1]] = metric{kind: m[3], help: m[2], labels: cmp.Or(labels(m[4]), all[m[1]].labels)}
		}
	}
	for _, d := range features.Dimensions {
		all[d.Series] = metric{kind: "gauge", help: d.Help, labels: labels("pool=,class=")}
	}
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, m.kind, m.labels, cell(m.help))
	}
	return b.String()
}

// series writes the table of stored series.
func series() string {
	help := storage.SeriesHelp()
	var b strings.Builder
	b.WriteString("| series | meaning |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(help)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, cell(help[name]))
	}
	return b.String()
}

// structs are the tables of a struct's JSON fields and of the structs that they hold.
func (g goSource) structs(t *testing.T, folder, name string) string {
	t.Helper()
	var b strings.Builder
	done := map[string]bool{}
	var write func(folder, name string)
	write = func(folder, name string) {
		if done[name] {
			return
		}
		done[name] = true
		spec, help := g.find(folder, name)
		fields, ok := spec.(*ast.StructType)
		if !ok {
			return
		}
		fmt.Fprintf(&b, "**%s.** %s\n\n| field | type | meaning |\n|---|---|---|\n", name, cell(help))
		var next [][2]string
		for _, f := range fields.Fields.List {
			tag := jsonName(f)
			if tag == "" {
				continue
			}
			kind, of := typeName(folder, f.Type)
			if words := g.words(of); words != "" {
				kind, of = words, [2]string{}
			}
			note := fieldHelp(f)
			if strings.Contains(f.Tag.Value, `json:"`+tag+",omit") {
				note = strings.TrimPrefix(note+"; may be missing", "; ")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", tag, kind, note)
			if of[1] != "" {
				next = append(next, of)
			}
		}
		b.WriteString("\n")
		for _, n := range next {
			write(n[0], n[1])
		}
	}
	write(folder, name)
	return b.String()
}

// words returns the constants of a string type, "" for any other type.
func (g goSource) words(of [2]string) string {
	spec, _ := g.find(of[0], of[1])
	if kind, ok := spec.(*ast.Ident); !ok || kind.Name != "string" {
		return ""
	}
	var all []string
	for _, file := range g[of[0]] {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range decl.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && v.Type != nil && fmt.Sprint(v.Type) == of[1] && text(v.Values[0]) != "" {
					all = append(all, "`"+text(v.Values[0])+"`")
				}
			}
		}
	}
	return "word: " + strings.Join(all, ", ")
}

// find returns the type of a name, and its comment.
func (g goSource) find(folder, name string) (ast.Expr, string) {
	for _, file := range g[folder] {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range decl.Specs {
				if spec, ok := s.(*ast.TypeSpec); ok && spec.Name.Name == name {
					return spec.Type, cmp.Or(spec.Doc.Text(), decl.Doc.Text())
				}
			}
		}
	}
	return nil, ""
}

// packages has the folders of packages whose types are in events.
var packages = map[string]string{"forecaster": "forecaster", "capacity": "forecaster/capacity", "alerting": "alerting", "features": "features"}

// typeName returns the kind of a field in the words of JSON, and the folder and name of its struct type.
func typeName(folder string, e ast.Expr) (kind string, of [2]string) {
	switch x := e.(type) {
	case *ast.StarExpr:
		kind, of = typeName(folder, x.X)
		return kind + " or null", of
	case *ast.ArrayType:
		kind, of = typeName(folder, x.Elt)
		return "list of " + kind, of
	case *ast.MapType:
		return "object", of
	case *ast.SelectorExpr:
		if p := x.X.(*ast.Ident).Name; p != "time" {
			return x.Sel.Name, [2]string{packages[p], x.Sel.Name}
		}
		return "time", of
	case *ast.Ident:
		switch x.Name {
		case "string":
			return "text", of
		case "int", "int64", "uint64":
			return "whole number", of
		case "float64":
			return "number", of
		case "bool":
			return "true or false", of
		case "T":
			return "the data", of
		}
		return x.Name, [2]string{folder, x.Name}
	}
	return "", of
}

func dimensions() string {
	var b strings.Builder
	b.WriteString("| dimension | unit | forecast | meaning |\n|---|---|---|---|\n")
	for _, d := range features.Dimensions {
		forecast := "no"
		if features.ForecastIndex(d.Name) >= 0 {
			forecast = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Unit, forecast, cell(d.Help))
	}
	return b.String()
}

func formats() string {
	var b strings.Builder
	b.WriteString("| format | content type |\n|---|---|\n")
	for _, name := range codec.Formats() {
		contentType, _ := codec.ContentTypeOf(name)
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", name, contentType)
	}
	return b.String()
}

// TestTelemetryPage: the page has the fields of the protobuf schema and each reason to refuse a record. The codec reads
// its samples.
func TestTelemetryPage(t *testing.T) {
	page, proto := read(t, "telemetry.md"), read(t, root+"/ingest/codec/telemetry.proto")
	for _, m := range regexp.MustCompile("(?s)<!-- fields: (\\w+) -->\n(.*?)\n\n").FindAllStringSubmatch(page, -1) {
		_, message, _ := strings.Cut(proto, "message "+m[1]+" {")
		message, _, _ = strings.Cut(message, "\n}")
		var want, have []string
		for _, f := range regexp.MustCompile(`(?m)^  (?:optional |repeated )?\w+ (\w+) = `).FindAllStringSubmatch(message, -1) {
			want = append(want, f[1])
		}
		for _, f := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(m[2], -1) {
			have = append(have, f[1])
		}
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(want, have) {
			t.Errorf("%s has the fields %v; the page lists %v", m[1], want, have)
		}
	}
	for _, r := range ingest.Reasons {
		if !strings.Contains(page, "| `"+string(r)+"` |") {
			t.Errorf("the page does not say what %s means", r)
		}
	}
	subjects := map[string]string{
		"request": "telemetry.request.chat.agent", "sum": "telemetry.request.chat.agent", "replica": "telemetry.replica.chat.r-0",
		"ack": "prescale.ack.chat", "watermark": "telemetry.watermark.chat",
	}
	samples := regexp.MustCompile("(?s)<!-- sample: (\\w+).json -->\n```json\n(.*?)\n```").FindAllStringSubmatch(page, -1)
	if len(samples) != len(subjects) {
		t.Errorf("%d samples, want one for each of %d kinds of record", len(samples), len(subjects))
	}
	for _, m := range samples {
		about, known := codec.ParseSubject("forewarm", "forewarm."+subjects[m[1]])
		if m[1] == "sum" {
			about.ContentType = codec.ContentTypeSum
		}
		var b ingest.Batch
		codec.Decode(about, []byte(m[2]), ingest.DefaultLimits(), &b)
		if !known || len(b.Refused) > 0 || b.Records() == 0 && b.Watermark == nil {
			t.Errorf("%s: %+v", m[1], b)
		}
	}
}

// document has the parts of the server's OpenAPI document that the page shows.
type document struct {
	Paths map[string]map[string]struct {
		Summary    string
		Parameters []struct{ Name, In, Description string }
		Responses  map[string]struct {
			Content map[string]struct{ Schema schema }
		}
	}
	Components struct{ Schemas map[string]schema }
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Format               string
	Items                *schema
	AdditionalProperties any
	AnyOf                []schema
	Properties           map[string]schema
}

func (d *document) operations() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		o := d.Paths[path]["get"]
		fmt.Fprintf(&b, "### GET %s\n\n%s.\n\n", path, cell(o.Summary))
		for _, p := range o.Parameters {
			if p.In == "query" {
				fmt.Fprintf(&b, "- `%s`: %s\n", p.Name, cmp.Or(cell(p.Description), p.Name))
			}
		}
		var answers []string
		content := o.Responses["200"].Content
		for _, kind := range slices.Sorted(maps.Keys(content)) {
			s := content[kind].Schema
			if s.Ref != "" {
				kind += ", " + s.name()
			}
			answers = append(answers, kind)
		}
		fmt.Fprintf(&b, "- Answer: %s\n\n", strings.Join(answers, "; "))
	}
	return b.String()
}

func (d *document) schemas(source goSource) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		s := d.Components.Schemas[name]
		fmt.Fprintf(&b, "### %s\n\n", name)
		notes := source.notes(name, s.Properties)
		for _, p := range slices.Sorted(maps.Keys(s.Properties)) {
			field := s.Properties[p]
			line := fmt.Sprintf("- `%s`: %s", p, field.name())
			if notes[p] != "" {
				line += "; " + notes[p]
			}
			b.WriteString(line + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// notes returns the comments of the fields of a schema's struct: of the structs with its name, the one with the most
// properties of the schema.
func (g goSource) notes(name string, properties map[string]schema) (best map[string]string) {
	most := 0
	for _, folder := range slices.Sorted(maps.Keys(g)) {
		for _, typeName := range []string{name, name + "JSON"} {
			spec, _ := g.find(folder, typeName)
			fields, ok := spec.(*ast.StructType)
			if !ok {
				continue
			}
			notes, have := map[string]string{}, 0
			for _, f := range fields.Fields.List {
				if embedded, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 {
					maps.Copy(notes, g.notes(embedded.Name, properties))
				}
				if tag := jsonName(f); properties[tag].isSet() {
					have++
					notes[tag] = fieldHelp(f)
				}
			}
			if have > most {
				most, best = have, notes
			}
		}
	}
	return best
}

// jsonName returns a field's name in JSON, "" if it has none.
func jsonName(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
	return strings.TrimPrefix(tag, "-")
}

func (s schema) isSet() bool { return s.Ref != "" || s.Type != nil || s.AnyOf != nil }

// name returns the type that a schema allows.
func (s *schema) name() string {
	if s == nil {
		return "any"
	}
	if s.Ref != "" {
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	if len(s.AnyOf) > 0 {
		var all []string
		for i := range s.AnyOf {
			all = append(all, s.AnyOf[i].name())
		}
		return strings.Join(all, " or ")
	}
	if s.Format == "date-time" {
		return "time"
	}
	var names []string
	switch x := s.Type.(type) {
	case string:
		names = []string{x}
	case []any:
		for _, v := range x {
			names = append(names, fmt.Sprint(v))
		}
	default:
		return "any"
	}
	for i, n := range names {
		switch n {
		case "array":
			names[i] = "list of " + s.Items.name()
		case "object":
			if s.Properties != nil {
				names[i] = "object with " + strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")
			}
		}
	}
	return strings.Join(names, " or ")
}
