package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/forewarm/forewarm"

// room is one row of the import table in ARCHITECTURE.md: which of our packages a package may import, and what it must
// not reach, through whatever chain of imports.
type room struct {
	imports string // of ours, separated by spaces; "*" is everything
	bans    string // names in banned, separated by spaces
}

const pure = "nats http tsdb zap clock"

var rooms = map[string]room{
	"ingest":              {"", pure},
	"ingest/jetstream":    {"ingest", "tsdb"},
	"features/sketch":     {"", pure},
	"features":            {"ingest features/sketch", pure},
	"forecaster/model":    {"", pure},
	"forecaster/capacity": {"", pure},
	"forecaster":          {"features forecaster/model forecaster/capacity", pure},
	"alerting":            {"features forecaster forecaster/capacity", pure},
	"alerting/sink":       {"alerting", "tsdb"},
	"alerting/report":     {"features forecaster alerting", pure},
	"storage":             {"features forecaster alerting", "nats zap"},
	"":                    {"ingest features forecaster forecaster/capacity alerting", pure},
	"backtest":            {". ingest features forecaster forecaster/capacity alerting", "nats http tsdb"},
	"server":              {". ingest features forecaster forecaster/capacity alerting", "nats tsdb"},
	"config":              {"*", ""},
	"cmd/forewarm":        {"*", ""},
}

// banned are import paths (with everything below them) by what they stand for. The clock is not a package: it is looked
// for in the source.
var banned = map[string][]string{
	"nats": {"github.com/nats-io"},
	"http": {"net/http"},
	"tsdb": {"github.com/prometheus/prometheus/tsdb"},
	"zap":  {"go.uber.org/zap"},
}

// clockCalls read or wait for the wall clock, or draw from a source that no seed fixes.
var clockCalls = map[string][]string{
	"time":         {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"math/rand":    {"*"},
	"math/rand/v2": {"Int", "IntN", "Int64", "Int64N", "Uint64", "Uint64N", "Float64", "NormFloat64", "ExpFloat64", "Perm", "Shuffle", "N"},
	"os":           {"*"},
}

type listed struct {
	ImportPath, Dir   string
	GoFiles, Imports  []string
	Deps, TestGoFiles []string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Deps", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestImportTable enforces the table: a package without a row fails, and so does a row without a package.
func TestImportTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		row, ok := rooms[name]
		if !ok {
			t.Errorf("package %s has no row in the import table: decide what it may import", p.ImportPath)
			continue
		}
		seen[name] = true
		allowed := strings.Fields(row.imports)
		for _, dep := range p.Imports {
			if !strings.HasPrefix(dep, module) || row.imports == "*" {
				continue
			}
			short := strings.TrimPrefix(strings.TrimPrefix(dep, module), "/")
			if short == "" {
				short = "."
			}
			if !slices.Contains(allowed, short) {
				t.Errorf("%s imports %s; its row allows %q", p.ImportPath, dep, row.imports)
			}
		}
		for _, ban := range strings.Fields(row.bans) {
			for _, dep := range p.Deps {
				for _, path := range banned[ban] {
					if dep == path || strings.HasPrefix(dep, path+"/") {
						t.Errorf("%s reaches %s (%s), which its row bans", p.ImportPath, ban, dep)
					}
				}
			}
			if ban == "clock" {
				for _, file := range p.GoFiles {
					findClock(t, filepath.Join(p.Dir, file))
				}
			}
		}
	}
	for name := range rooms {
		if !seen[name] {
			t.Errorf("the import table has a row for %q, which is no package", name)
		}
	}
}

// findClock reports calls in a pure package's file that would make its result depend on when or where it runs, and
// goroutines.
func findClock(t *testing.T, path string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // local name → import path
	for _, im := range f.Imports {
		p := strings.Trim(im.Path.Value, `"`)
		local := strings.TrimSuffix(filepath.Base(p), "/v2")
		if strings.HasSuffix(p, "/v2") {
			local = filepath.Base(strings.TrimSuffix(p, "/v2"))
		}
		if im.Name != nil {
			local = im.Name.Name
		}
		names[local] = p
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			t.Errorf("%s: a pure package starts a goroutine", fset.Position(g.Pos()))
		}
		call, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := call.X.(*ast.Ident)
		if !ok {
			return true
		}
		for _, banned := range clockCalls[names[pkg.Name]] {
			if banned == "*" || banned == call.Sel.Name {
				t.Errorf("%s: a pure package uses %s.%s", fset.Position(call.Pos()), pkg.Name, call.Sel.Name)
			}
		}
		return true
	})
}
