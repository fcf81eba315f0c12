package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/forewarm/forewarm"

// tableRow is one row of the table in docs/packages.md: the packages of this module that a package may import, and what
// it must not reach, directly or indirectly.
type tableRow struct {
	imports []string // nil with all set
	all     bool
	bans    []string // names in banned, and clock
}

// pure are the bans of a pure package.
var pure = []string{"nats", "http", "tsdb", "zap", "clock"}

// readTable reads the table of packages from docs/packages.md.
func readTable(t *testing.T) map[string]tableRow {
	t.Helper()
	page, err := os.ReadFile("../../docs/packages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| package | purpose | of ours it may import | never reaches |\n|---|---|---|---|\n")
	if !ok {
		t.Fatal("docs/packages.md has no table of packages")
	}
	rows := map[string]tableRow{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 {
			break
		}
		names := func(cell string) []string { return strings.Fields(strings.ReplaceAll(cell, "`", "")) }
		r := tableRow{imports: names(cells[3]), bans: names(cells[4])}
		if len(r.imports) == 1 && r.imports[0] == "everything" {
			r = tableRow{all: true, bans: r.bans}
		}
		if len(r.bans) == 1 && r.bans[0] == "pure" {
			r.bans = pure
		}
		rows[names(cells[1])[0]] = r
	}
	return rows
}

// banned has import paths (with everything below them) by short name. The clock is not a package: the test looks for it
// in the source.
var banned = map[string][]string{
	"nats": {"github.com/nats-io"},
	"http": {"net/http"},
	"tsdb": {"github.com/prometheus/prometheus/tsdb"},
	"zap":  {"go.uber.org/zap"},
}

// clockCalls are functions that read or wait for the wall clock, draw random numbers without a seed, use files or log.
var clockCalls = map[string][]string{
	"time":         {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"math/rand":    {"*"},
	"math/rand/v2": {"Int", "IntN", "Int64", "Int64N", "Uint64", "Uint64N", "Float64", "NormFloat64", "ExpFloat64", "Perm", "Shuffle", "N"},
	"os":           {"*"},
	"log":          {"*"},
	"log/slog":     {"*"},
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir        string
	GoFiles, Imports, Deps []string
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

// TestImportTable enforces the table. A package without a row is an error. So is a row without a package, and an allowed
// import that is not used. Imports of tests do not count.
func TestImportTable(t *testing.T) {
	rows, seen := readTable(t), map[string]bool{}
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		row, ok := rows[name]
		if !ok {
			t.Errorf("package %s has no row in the import table: decide what it may import", p.ImportPath)
			continue
		}
		seen[name] = true
		for _, dep := range p.Imports {
			if !strings.HasPrefix(dep, module) || row.all {
				continue
			}
			short := strings.TrimPrefix(strings.TrimPrefix(dep, module), "/")
			if !slices.Contains(row.imports, short) {
				t.Errorf("%s imports %s; its row allows %v", p.ImportPath, dep, row.imports)
			}
		}
		for _, allowed := range row.imports {
			if !slices.Contains(p.Imports, module+"/"+allowed) && len(p.GoFiles) > 0 {
				t.Errorf("the row of %s allows %s, which it does not import", p.ImportPath, allowed)
			}
		}
		for _, ban := range row.bans {
			for _, dep := range p.Deps {
				for _, path := range banned[ban] {
					if dep == path || strings.HasPrefix(dep, path+"/") {
						t.Errorf("%s reaches %s (%s), which its row bans", p.ImportPath, ban, dep)
					}
				}
			}
			if ban == "clock" || ban == "goroutines" {
				for _, file := range p.GoFiles {
					findClock(t, filepath.Join(p.Dir, file), ban == "clock")
				}
			}
		}
	}
	for name := range rows {
		if !seen[name] {
			t.Errorf("the import table has a row for %q, which is not a package", name)
		}
	}
}

// findClock reports goroutines that a file starts. If clock is set, it also reports calls whose result depends on
// when or where they run.
func findClock(t *testing.T, path string, clock bool) {
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
		_, starts := n.(*ast.GoStmt)
		if call, ok := n.(*ast.CallExpr); ok { // Go of sync.WaitGroup and errgroup.Group
			method, ok := call.Fun.(*ast.SelectorExpr)
			starts = ok && (method.Sel.Name == "Go" || method.Sel.Name == "TryGo")
		}
		if starts {
			t.Errorf("%s: the package must not start a goroutine", fset.Position(n.Pos()))
		}
		call, ok := n.(*ast.SelectorExpr)
		if !ok || !clock {
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
