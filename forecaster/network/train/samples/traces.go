package main

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// trace is a file of traffic: one row a request, or one a bin.
type trace struct {
	file string
	bin  int      // minutes, 0: one row a request
	dims []string // what is summed
}

var traces = []trace{
	{"agentic_claude_7d.csv.gz", 0, []string{"requests", "prefill", "decode"}},
	{"azure2023_conv_1h.csv.gz", 0, []string{"requests", "prefill", "decode"}},
	{"azure2024_conv_week_10min_digitised.csv.gz", 10, []string{"requests", "prefill", "decode"}},
	{"azure2024_conv_week_1in40_recon.csv.gz", 0, []string{"requests", "prefill", "decode"}},
	{"mooncake_conversation_1h.csv.gz", 0, []string{"requests", "prefill", "decode"}},
	{"nab_seasonal.csv.gz", 5, []string{"requests"}},
	{"sageserve_m365_1min.csv.gz", 1, []string{"prefill"}},
	{"nasa_aug95_1min.csv.gz", 1, []string{"prefill"}},
	{"nasa_jul95_1min.csv.gz", 1, []string{"prefill"}},
	{"worldcup98_1min.csv.gz", 1, []string{"prefill"}},
	{"servegen_clients_10min.csv.gz", 10, []string{"requests", "prefill", "decode"}},
	{"servegen_deepseek_r1_1d.csv.gz", 0, []string{"requests", "prefill", "decode"}},
	{"servegen_mm_image_1d.csv.gz", 0, []string{"requests", "prefill", "decode"}},
	{"servegen_sgA_14d.csv.gz", 0, []string{"requests", "prefill", "decode"}},
}

// serie is a rate by the minute: of one class, or of all.
type serie struct {
	group string // where it is from; series of one group are alike, and are held out together
	name  string
	first int       // minute of the first record
	y     []float64 // the part of the trace that is learned from
}

// fitShare is the part of each trace that is learned from.
const fitShare = 2.0 / 3

// thinnings are the shares of requests that are kept in thinner copies of a trace of requests.
var thinnings = []float64{1, .2, .04, .01}

// total is the class of all requests.
const total = "*"

func readTraces(dir string) (out []serie, err error) {
	parts := make([][]serie, len(traces))
	errs := make(chan error)
	for i, tr := range traces {
		go func() {
			var err error
			parts[i], err = tr.read(dir)
			errs <- err
		}()
	}
	for range traces {
		err = cmp.Or(err, <-errs)
	}
	if err != nil {
		return nil, err
	}
	return slices.Concat(parts...), nil
}

type key struct {
	class, dim string
	thin       int
}

func (tr *trace) read(dir string) ([]serie, error) {
	file, err := os.Open(filepath.Join(dir, tr.file))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unzip, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tr.file, err)
	}
	rows := csv.NewReader(unzip)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tr.file, err)
	}
	r := row{column: map[string]int{}}
	for i, name := range header {
		r.column[strings.Clone(name)] = i
	}
	c := counter{trace: tr, random: rand.New(rand.NewPCG(1, hash(tr.file))), sums: map[key]map[int]float64{}, end: map[string]int{}}
	for {
		r.cells, err = rows.Read()
		if errors.Is(err, io.EOF) {
			return tr.series(c.sums, c.end), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tr.file, err)
		}
		c.count(&r)
	}
}

// row is one of a trace's; its cells are valid until the next is read.
type row struct {
	column map[string]int
	cells  []string
}

// number is 0 where the row has none.
func (r *row) number(name string) float64 {
	i, ok := r.column[name]
	if !ok || r.cells[i] == "" {
		return 0
	}
	x, err := strconv.ParseFloat(r.cells[i], 64)
	if err != nil {
		return 0
	}
	return x
}

// counter sums up a trace by the minute, in each of its thinner copies.
type counter struct {
	trace  *trace
	random *rand.Rand
	sums   map[key]map[int]float64
	end    map[string]int // last minute, by class for a file whose classes are of different times
}

func (c *counter) count(r *row) {
	minute := int(r.number("t_s")) / 60
	draw := c.random.Float64()
	for thin, kept := range thinnings {
		if draw >= kept || thin > 0 && c.trace.bin > 0 {
			return
		}
		c.add(r, r.cells[r.column["class"]], thin, minute)
		c.add(r, total, thin, minute)
	}
}

func (c *counter) add(r *row, class string, thin, minute int) {
	if _, ok := c.end[class]; !ok {
		class = strings.Clone(class)
	}
	c.end[class] = max(c.end[class], minute)
	for _, dim := range c.trace.dims {
		k := key{class, dim, thin}
		if c.sums[k] == nil {
			k.class = strings.Clone(class)
			c.sums[k] = map[int]float64{}
		}
		switch {
		case dim == "requests" && c.trace.bin == 0:
			c.sums[k][minute]++
		case dim == "requests":
			c.sums[k][minute] += r.number("requests")
		case dim == "prefill":
			c.sums[k][minute] += r.number("prompt_tokens") - r.number("cached_tokens")
		case dim == "decode":
			c.sums[k][minute] += r.number("output_tokens")
		}
	}
}

func (tr *trace) series(sums map[key]map[int]float64, end map[string]int) (out []serie) {
	keys := make([]key, 0, len(sums))
	for k := range sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.dim, b.dim), cmp.Compare(a.thin, b.thin))
	})
	width := max(tr.bin, 1)
	for _, k := range keys {
		last := end[total]
		if tr.file == "nab_seasonal.csv.gz" {
			last = end[k.class] // each of its series has a span of its own
			if k.class == total {
				continue
			}
			if k.class == "nyc_taxi" {
				width = 30
			}
		}
		n := int(fitShare * float64(last+width))
		s := serie{group: tr.group(k.class), name: fmt.Sprintf("%s/%s/%s/%v", strings.TrimSuffix(tr.file, ".csv.gz"), k.class, k.dim, thinnings[k.thin]), first: n, y: make([]float64, n)}
		sum := 0.0
		for m, v := range sums[k] {
			if m >= n {
				continue
			}
			s.first = min(s.first, m)
			sum += v
			for i := m; i < min(n, m+width); i++ {
				s.y[i] = v / 60 / float64(width)
			}
		}
		if k.class == total {
			s.first = 0
		}
		if sum > 0 {
			out = append(out, s)
		}
		width = max(tr.bin, 1)
	}
	return out
}

// group names the service that a class is of.
func (tr *trace) group(class string) string {
	switch {
	case strings.Contains(tr.file, "clients"):
		if strings.HasPrefix(class, "deepseek") {
			return "deepseek"
		}
		return "sg"
	case strings.Contains(tr.file, "sgA"):
		return "sg"
	case strings.Contains(tr.file, "azure2024"):
		return "azure2024"
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(tr.file, "servegen_"), "_")
	return name
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}
