// Command samples draws what the network is trained on from the first two thirds of public traces:
//
//	go run ./forecaster/network/train/samples -traces DIR -o FILE
//
// Each row of FILE is little-endian float32: the features, level over spread, the squared spread over the size of the
// series' moves, and the outcomes in units of the squared spread (NaN: not known). The same traces
// give the same bytes. With -without GROUPS the series of some services are left out.
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/forewarm/forewarm/forecaster/network"
)

func main() {
	dir := flag.String("traces", "", "directory of the traces")
	out := flag.String("o", "", "file to write")
	without := flag.String("without", "", "groups of series to leave out, separated by commas")
	flag.Parse()
	if *dir == "" || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*dir, *out, strings.Split(*without, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "samples:", err)
		os.Exit(1)
	}
}

func run(dir, out string, without []string) error {
	all, err := readTraces(dir)
	if err != nil {
		return err
	}
	all = append(all, made()...)
	all = slices.DeleteFunc(all, func(s serie) bool { return slices.Contains(without, s.group) })
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer file.Close()
	w := bufio.NewWriterSize(file, 1<<20)
	n := 0
	for _, samples := range drawAll(all) {
		n += len(samples)
		for i := range samples {
			if err := binary.Write(w, binary.LittleEndian, samples[i].row()); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%d series, %d samples, %d features, %d targets\n", len(all), n, network.NumFeatures, network.Targets)
	return w.Flush()
}
