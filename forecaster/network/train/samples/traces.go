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

	"golang.org/x/sync/errgroup"
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

func readTraces(dir string) ([]timeSeries, error) {
	parts := make([][]timeSeries, len(traces))
	var group errgroup.Group
	for i := range traces {
		group.Go(func() (err error) {
			if parts[i], err = traces[i].read(dir); err != nil {
				return fmt.Errorf("%s: %w", traces[i].file, err)
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.Concat(parts...), err
}

type key struct {
	class, dim string
	thin       int
}

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
	c := counter{trace: tr, sums: map[key]map[int]float64{}, end: map[string]int{}}
	for {
		cells, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return c.series(), nil
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
		draw := random.Float64()
		for thin, kept := range thinnings {
			if draw >= kept || thin > 0 && tr.bin > 0 {
				break
			}
			c.add(number, cells[column["class"]], thin)
			c.add(number, total, thin)
		}
	}
}

// counter sums up a trace by the minute, in each of its thinner copies.
type counter struct {
	*trace
	sums map[key]map[int]float64
	end  map[string]int // last minute, by class
}

func (c *counter) add(number func(column string) float64, class string, thin int) {
	minute := int(number("t_s")) / 60
	c.end[class] = max(c.end[class], minute)
	for _, dim := range c.dims {
		k := key{class, dim, thin}
		if c.sums[k] == nil {
			c.sums[k] = map[int]float64{}
		}
		switch {
		case dim == "requests" && c.bin == 0:
			c.sums[k][minute]++
		case dim == "requests":
			c.sums[k][minute] += number("requests")
		case dim == "prefill":
			c.sums[k][minute] += number("prompt_tokens") - number("cached_tokens")
		case dim == "decode":
			c.sums[k][minute] += number("output_tokens")
		}
	}
}

func (c *counter) series() (out []timeSeries) {
	keys := slices.SortedFunc(maps.Keys(c.sums), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.dim, b.dim), cmp.Compare(a.thin, b.thin))
	})
	for _, k := range keys {
		width, last := max(c.bin, 1), c.end[total]
		if c.file == nab {
			if k.class == total {
				continue
			}
			if last = c.end[k.class]; k.class == "nyc_taxi" {
				width = 30
			}
		}
		n := int(fitShare * float64(last+width))
		name := fmt.Sprintf("%s/%s/%s/%v", strings.TrimSuffix(c.file, ".csv.gz"), k.class, k.dim, thinnings[k.thin])
		s := timeSeries{group: c.group(k.class), name: name, first: n, y: make([]float64, n)}
		sum := 0.0
		for m, v := range c.sums[k] {
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
