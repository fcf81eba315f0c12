// Command fit fits the network of package net to the first two thirds of public traces and writes its weights:
//
//	go run ./forecaster/net/fit -traces DIR -o forecaster/net/weights.bin
//
// The same traces give the same bytes, on any number of processors of one architecture. With -without GROUP the series of
// one service are left out, so that a score on them (FOREWARM_ACCURACY_NET in package forecaster) is one on traffic of a
// service that the network has never seen. Groups: agentic, azure2024, deepseek, mm, sageserve, sg, and lesser ones.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
)

func main() {
	dir := flag.String("traces", "", "directory of the traces")
	out := flag.String("o", "", "file of weights to write")
	without := flag.String("without", "", "group of series to leave out")
	flag.Parse()
	if *dir == "" || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*dir, *out, *without); err != nil {
		fmt.Fprintln(os.Stderr, "fit:", err)
		os.Exit(1)
	}
}

func run(dir, out, without string) error {
	all, err := readTraces(dir)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s serie) bool { return s.group == without })
	samples := drawAll(all)
	fmt.Printf("%d series, %d samples\n", len(all), len(samples))
	return os.WriteFile(out, train(samples, os.Stdout).Encode(), 0o644)
}
