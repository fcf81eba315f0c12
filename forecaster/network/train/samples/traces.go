package main

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// trace is a file of traffic: one row per request, or one per bin.
type trace struct {
	file string
	bin  int      // minutes; 0: one row per request
	dims []string // what is summed
}

var (
	allDims = []string{"requests", "prefill", "decode"}
	prefill = allDims[1:2]
	traces  = []trace{
		{"agentic_claude_7d.csv.gz", 0, allDims},
		{"azure2023_conv_1h.csv.gz", 0, allDims},
		{"azure2024_conv_week_10min_digitised.csv.gz", 10, allDims},
		{"azure2024_conv_week_1in40_recon.csv.gz", 0, allDims},
		{"mooncake_conversation_1h.csv.gz", 0, allDims},
		{nab, 5, allDims[:1]},
		{"sageserve_m365_1min.csv.gz", 1, prefill},
		{"nasa_aug95_1min.csv.gz", 1, prefill},
		{"nasa_jul95_1min.csv.gz", 1, prefill},
		{"worldcup98_1min.csv.gz", 1, prefill},
		{"servegen_clients_10min.csv.gz", 10, allDims},
		{"servegen_deepseek_r1_1d.csv.gz", 0, allDims},
		{"servegen_mm_image_1d.csv.gz", 0, allDims},
		{"servegen_sgA_14d.csv.gz", 0, allDims},
	}
)

// nab has series of different spans, and one with bins of half an hour.
const nab = "nab_seasonal.csv.gz"

// timeSeries is a rate by the minute: of one class, or of all.
type timeSeries struct {
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

func readTraces(dir string) (all []timeSeries, err error) {
	for i := range traces {
		part, err := traces[i].read(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", traces[i].file, err)
		}
		all = append(all, part...)
	}
	return all, nil
}

type key struct {
	class, dim string
	thin       int
}

// read sums up a trace by the minute, in each of its thinner copies.
func (tr *trace) read(dir string) ([]timeSeries, error) {
	file, err := os.Open(filepath.Join(dir, tr.file))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unzip, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	rows := csv.NewReader(unzip)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, err
	}
	column := map[string]int{}
	for i, name := range header {
		column[name] = i
	}
	random := rand.New(rand.NewPCG(1, hash(tr.file)))
	sums, end := map[key]map[int]float64{}, map[string]int{} // end is the last minute, by class
	for {
		cells, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return tr.series(sums, end), nil
		}
		if err != nil {
			return nil, err
		}
		number := func(name string) (x float64) { // 0 if the row has none
			if i, ok := column[name]; ok {
				x, _ = strconv.ParseFloat(cells[i], 64)
			}
			return x
		}
		minute := int(number("t_s")) / 60
		of := map[string]float64{
			"requests": number("requests"), "prefill": number("prompt_tokens") - number("cached_tokens"), "decode": number("output_tokens"),
		}
		if tr.bin == 0 {
			of["requests"] = 1
		}
		draw := random.Float64()
		for thin, kept := range thinnings {
			if draw >= kept || thin > 0 && tr.bin > 0 {
				break
			}
			for _, class := range []string{cells[column["class"]], total} {
				end[class] = max(end[class], minute)
				for _, dim := range tr.dims {
					k := key{class, dim, thin}
					if sums[k] == nil {
						sums[k] = map[int]float64{}
					}
					sums[k][minute] += of[dim]
				}
			}
		}
	}
}

func (tr *trace) series(sums map[key]map[int]float64, end map[string]int) (out []timeSeries) {
	keys := slices.SortedFunc(maps.Keys(sums), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.dim, b.dim), cmp.Compare(a.thin, b.thin))
	})
	for _, k := range keys {
		width, last := max(tr.bin, 1), end[total]
		if tr.file == nab {
			if k.class == total {
				continue
			}
			if last = end[k.class]; k.class == "nyc_taxi" {
				width = 30
			}
		}
		n := int(fitShare * float64(last+width))
		name := fmt.Sprintf("%s/%s/%s/%v", strings.TrimSuffix(tr.file, ".csv.gz"), k.class, k.dim, thinnings[k.thin])
		s := timeSeries{group: tr.group(k.class), name: name, first: n, y: make([]float64, n)}
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
