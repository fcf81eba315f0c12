package backtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/ingest"
)

// readAll returns each item of a trace as a line: seconds from the start, class, counts with ? for unknown.
func readAll(t *testing.T, path string, opts Options) (lines []string, r *Reader) {
	t.Helper()
	r, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	var it Item
	for {
		err := r.Next(&it)
		if errors.Is(err, io.EOF) {
			return lines, r
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, render(it, r.Start))
	}
}

func render(it Item, start time.Time) string {
	n := func(x float64) string {
		if math.IsNaN(x) || x == float64(ingest.Unknown) {
			return "?"
		}
		return fmt.Sprintf("%.6g", x)
	}
	at := fmt.Sprintf("%g", it.At().Sub(start).Seconds())
	if s := it.Sum; s != nil {
		return strings.Join([]string{at, s.Class, "sum", n(s.Requests), n(s.PromptTokens), n(s.CachedTokens), n(s.OutputTokens)}, " ")
	}
	q := it.Request
	return strings.Join([]string{at, q.Class, n(float64(q.PromptTokens)), n(float64(q.CachedTokens)), n(float64(q.OutputTokens))}, " ")
}

// TestProgressOfLeftOutRows: progress is shown every 64 rows of the file, also of rows that are left out.
func TestProgressOfLeftOutRows(t *testing.T) {
	var file strings.Builder
	file.WriteString("t_s,class,requests\n")
	for i := range 64 * 20 {
		class := "other"
		if i < 64 {
			class = "kept"
		}
		fmt.Fprintf(&file, "%d,%s,1\n", 60*i, class)
	}
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	calls := 0
	items, _ := readAll(t, path, Options{Only: "kept", Progress: func(string, int64, int64) { calls++ }})
	if len(items) != 64 || calls < 20 || calls > 22 {
		t.Errorf("%d items and %d calls, want 64 and about 20", len(items), calls)
	}
}

func TestFormats(t *testing.T) {
	for _, test := range []struct {
		file, format string
		opts         Options
		start        time.Time
		want         []string
	}{
		{
			file: "requests.csv", format: "requests", start: DefaultStart,
			want: []string{"0.25 chat 120 ? 30", "1 chat 0 0 5", "2.5 agent 9000 8192 ?"},
		},
		{ // bins of three minutes, whose width is inferred; grouped by class, read in order of time
			file: "bins.csv", format: "bins", start: DefaultStart,
			want: []string{
				"0 chat sum 60 12000 ? 1800", "0 agent sum ? 30000 10000 1000", "60 chat sum 60 12000 ? 1800", "60 agent sum ? 30000 10000 1000",
				"120 chat sum 60 12000 ? 1800", "120 agent sum ? 30000 10000 1000", "180 chat sum 20 4000 ? 600", "180 agent sum ? 20000 10000 200",
				"240 chat sum 20 4000 ? 600", "240 agent sum ? 20000 10000 200", "300 chat sum 20 4000 ? 600", "300 agent sum ? 20000 10000 200",
			},
		},
		{
			file: "requests.csv", format: "bins", opts: Options{Bin: time.Minute, Start: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)},
			start: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
			// A bin that does not begin on a minute is split at the minute.
			want: []string{
				"0.25 chat sum ? 119.5 ? 29.875", "1 chat sum ? 0 0 4.91667", "2.5 agent sum ? 8625 7850.67 ?",
				"60 chat sum ? 0.5 ? 0.125", "60 chat sum ? 0 0 0.0833333", "60 agent sum ? 375 341.333 ?",
			},
		},
		{
			file: "azure2023.csv", format: "requests", start: time.Date(2023, 11, 16, 18, 15, 0, 0, time.UTC),
			want: []string{"46.68059 azure2023 374 ? 44", "50.995169 azure2023 396 ? 109"},
		},
		{ // times with a zone
			file: "azure2024.csv", format: "requests", opts: Options{Class: "conv"}, start: time.Date(2024, 5, 12, 0, 0, 0, 0, time.UTC),
			want: []string{"0.003948 conv 2162 ? 5", "1 conv 2399 ? 6", "2 conv 76 ? 15"},
		},
		{
			file: "burstgpt1.csv", format: "requests", start: DefaultStart,
			want: []string{"5 ChatGPT 472 ? 18", "45 GPT-4 1087 ? 230"},
		},
		{
			file: "burstgpt2.csv", format: "requests", start: DefaultStart,
			want: []string{"5 ChatGPT 472 ? 0", "6.5 ChatGPT 100 ? 20"},
		},
		{
			file: "mooncake.jsonl", format: "requests", start: DefaultStart,
			want: []string{"0 mooncake 1300 ? 50", "3 mooncake 1400 ? 20", "61 mooncake 100 ? ?"},
		},
		{ // tool events are not requests; records in order of their ends
			file: "dynamo.jsonl", format: "dynamo", opts: Options{Class: "chat"}, start: time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC),
			want: []string{"1 chat 130 ? 16", "2 chat 200 ? 5", "9 chat 130 64 16"},
		},
		{ // records in the order of the file, although the first request arrived later
			file: "telemetry.ndjson", format: "ndjson", start: time.Date(2025, 3, 3, 10, 0, 0, 0, time.UTC),
			want: []string{"5 chat 10 8 4", "9 chat 100 ? 40"},
		},
	} {
		t.Run(test.file+"/"+test.format, func(t *testing.T) {
			lines, r := readAll(t, filepath.Join("testdata", test.file), test.opts)
			if diff := cmp.Diff(test.want, lines); diff != "" {
				t.Error(diff)
			}
			if r.Format.Name != test.format || !r.Start.Equal(test.start) {
				t.Errorf("format %s from %s, want %s from %s", r.Format.Name, r.Start, test.format, test.start)
			}
			if read, total := r.progress(); read != total || total == 0 {
				t.Errorf("progress %d of %d bytes at the end", read, total)
			}
		})
	}
}

// TestFirstLines: the format of a file does not depend on which of its rows comes first. Columns with our names count
// before those with the names of public traces.
func TestFirstLines(t *testing.T) {
	dynamo, err := os.ReadFile("testdata/dynamo.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.SplitAfter(string(dynamo), "\n")
	for name, test := range map[string]struct {
		content, format string
		want            []string
	}{
		"Dynamo, a request":           {strings.Join(rows[1:], ""), "dynamo", []string{"1 c 130 ? 16", "2 c 200 ? 5", "9 c 130 64 16"}},
		"Dynamo, a wrapped request":   {strings.Join(rows[2:], ""), "dynamo", []string{"2 c 200 ? 5", "9 c 130 64 16"}},
		"a member that has one":       {`{"class":"c","arrived_at":1741000020000,"prompt_tokens":3,"more":{"input_length":1}}`, "ndjson", []string{"0 c 3 ? ?"}},
		"Mooncake, null":              {`{"timestamp":4e12,"input_length":5,"output_length":null}` + "\n" + `{"timestamp":0,"input_length":null}`, "requests", []string{"0 c ? ? ?", "4e+09 c 5 ? ?"}},
		"our class and a model":       {"t_s,Model,class,prompt_tokens\n5,gpt,chat,7\n", "requests", []string{"5 chat 7 ? ?"}},
		"our time and a calendar's":   {"TIMESTAMP,t_s,class\n2023-11-16 18:15:46,5,chat\n", "requests", []string{"5 chat ? ? ?"}},
		"a calendar's and no other's": {"TIMESTAMP,Timestamp,class\n2023-11-16 18:15:46,5,chat\n", "requests", []string{"46 chat ? ? ?"}},
	} {
		t.Run(name, func(t *testing.T) {
			lines, r := readAll(t, write(t, test.content), Options{Class: "c"})
			if diff := cmp.Diff(test.want, lines); diff != "" || r.Format.Name != test.format {
				t.Errorf("%s, want %s: %s", r.Format.Name, test.format, diff)
			}
		})
	}
}

// TestBinWidthIsInferred: the width is the smallest step within a class. Classes may have different times.
func TestBinWidthIsInferred(t *testing.T) {
	for rows, want := range map[string]string{
		"0,taxi,1\n100,lift,1\n600,taxi,1\n700,lift,1\n1800,taxi,1\n": "10m0s", "0,taxi,1\n30,lift,1\n": "1m0s",
	} {
		_, r := readAll(t, write(t, "t_s,class,requests\n"+rows), Options{})
		if notes := r.Summary.Notes; len(notes) == 0 || !strings.Contains(notes[0], "bin width "+want) {
			t.Errorf("%q: notes %q, want %s", rows, notes, want)
		}
	}
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLongRecordsInOrderOfArrival: records in order of arrival are read in order of their ends, also when many arrive
// while one runs.
func TestLongRecordsInOrderOfArrival(t *testing.T) {
	const n = 20_000
	var b strings.Builder
	for i := range n {
		at, runs := 1_700_000_000_000+10*i, 20
		if i%1000 == 0 {
			runs = 120_000 // while 12000 others arrive
		}
		fmt.Fprintf(&b, `{"arrived_at":%d,"finished_at":%d,"prompt_tokens":1}`+"\n", at, at+runs)
	}
	lines, r := readAll(t, write(t, b.String()), Options{})
	if c := r.Summary; len(lines) != n || c.Refused != 0 {
		t.Errorf("%d items, %+v; want all %d", len(lines), c, n)
	}
}

// TestWrongRows: a row that is refused is counted and named. The rows around it are read.
func TestWrongRows(t *testing.T) {
	const header = "t_s,class,prompt_tokens,cached_tokens,output_tokens\n"
	for name, test := range map[string]struct{ row, want string }{
		"text":        {"1,c,many,,1", `prompt_tokens "many" is not a number`},
		"negative":    {"1,c,-4,,1", "prompt_tokens -4 is negative"},
		"huge":        {"1,c,1e12,,1", "above 1e+08: check the unit"},
		"not a time":  {",c,1,,1", "the time is empty"},
		"nan":         {"NaN,c,1,,1", "not a number"},
		"cached":      {"1,c,5,6,1", "cached_tokens exceeds prompt_tokens"},
		"long class":  {"1," + strings.Repeat("x", 300) + ",5,,1", "class name is too long"},
		"open quotes": {`1,"c,5,,1`, "RFC 4180"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, header+"0,c,1,,1\n"+test.row+"\n2,\"c,d\",1,,1\n")
			lines, r := readAll(t, path, Options{})
			if len(lines) != 2 || lines[1] != "2 c,d 1 ? 1" {
				t.Errorf("%q: want the rows before and after the wrong one", lines)
			}
			n := r.Summary
			if n.Refused != 1 || n.Rows != 2 || n.FirstRefused == "" || !strings.Contains(n.FirstRefused, path+":3: ") || !strings.Contains(n.FirstRefused, test.want) {
				t.Errorf("counts %+v, want one refused row at line 3: %s", n, test.want)
			}
		})
	}
}

// TestRecordsOutOfOrder: records out of order within the buffer are sorted. Those that come later are counted and
// left out.
func TestRecordsOutOfOrder(t *testing.T) {
	var b strings.Builder
	b.WriteString("t_s,class,prompt_tokens\n")
	const n = 5000 // more than the buffer holds
	for i := range n {
		fmt.Fprintf(&b, "%d,c,1\n", i^1) // neighbours swapped
	}
	b.WriteString("3,c,1\n")
	lines, r := readAll(t, write(t, b.String()), Options{})
	for i, l := range lines {
		if want := fmt.Sprintf("%d c 1 ? ?", i); l != want {
			t.Errorf("row %d is %q, want %q", i, l, want)
		}
	}
	if c := r.Summary; c.Refused != 1 || c.Rows != n || !strings.Contains(c.FirstRefused, "sort the file by time") {
		t.Errorf("%+v: want one record out of order, and %d rows", c, n)
	}
}

func TestUnusableFiles(t *testing.T) {
	for name, test := range map[string]struct {
		content, want string
	}{
		"empty":          {"", "the file is empty"},
		"other":          {"a,b,c\n1,2,3\n", "of no known trace format"},
		"header only":    {"t_s,class,prompt_tokens\n", "no rows"},
		"nothing usable": {"t_s,class,prompt_tokens\nx,c,1\n", "no usable row"},
		"wide bins":      {"t_s,class,requests\n0,c,1\n1e9,c,1\n", "too wide"},
		"missing column": {"t_s,output_tokens\n0,1\n", "a CSV header with t_s and class or prompt_tokens"},
		"no calendar":    {"TIMESTAMP,ContextTokens\n17 May,1\n", `TIMESTAMP "17 May" is no time`},
		"no members":     {`{"timestamp":1,"input_length":"many"}`, "is not a number"},
		"broken":         {`{"timestamp":1,"input_length":`, "one object a line with timestamp"},
	} {
		if _, err := Open(write(t, test.content), Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func FuzzReader(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		f.Fatal("no samples", err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &Reader{opts: Options{Pool: "p", Class: "c"}}
		if r.open(bytes.NewReader(b)) != nil {
			return
		}
		var it Item
		var last time.Time
		for range 10_000 {
			if err := r.Next(&it); err != nil {
				return
			}
			if it.At().Before(last) {
				t.Fatalf("%s after %s", it.At(), last)
			}
			last = it.At()
			if q := it.Request; q != nil && (q.PromptTokens < ingest.Unknown || q.OutputTokens < ingest.Unknown || q.CachedTokens < ingest.Unknown) {
				t.Fatalf("a negative count that is not Unknown: %+v", q)
			}
			if s := it.Sum; s != nil && (s.Requests < 0 || s.PromptTokens < 0 || s.CachedTokens < 0 || s.OutputTokens < 0) {
				t.Fatalf("a negative count: %+v", s)
			}
		}
	})
}
