// Command samples draws the training data of the network from the first two thirds of public traces:
//
//	go run ./forecaster/network/train/samples -traces DIR -o DIR
//
// It writes a file for each group of series that are alike, so that whole groups can be held out. Each row is
// little-endian float32: the features, level over spread, the squared spread over the usual distance of minutes and of
// the window's largest from the level, and the outcomes in units of the squared spread (NaN: unknown). The same traces
// give the same bytes.
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/forewarm/forewarm/forecaster/network"
)

func main() {
	dir := flag.String("traces", "", "directory of the traces")
	out := flag.String("o", "", "directory to write to")
	flag.Parse()
	if *dir == "" || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*dir, *out); err != nil {
		fmt.Fprintln(os.Stderr, "samples:", err)
		os.Exit(1)
	}
}

func run(dir, out string) error {
	all, err := readTraces(dir)
	if err != nil {
		return err
	}
	all = append(all, made()...)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	files := map[string]*bufio.Writer{}
	n := 0
	for i := range all {
		w := files[all[i].group]
		if w == nil {
			file, err := os.Create(filepath.Join(out, all[i].group))
			if err != nil {
				return err
			}
			defer file.Close()
			w = bufio.NewWriterSize(file, 1<<20)
			files[all[i].group] = w
		}
		for _, s := range draw(&all[i], all) {
			if err := binary.Write(w, binary.LittleEndian, s.row()); err != nil {
				return err
			}
			n++
		}
	}
	for _, w := range files {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Printf("%d series, %d samples, %d features, %d targets\n", len(all), n, network.NumFeatures, network.Targets)
	return nil
}
