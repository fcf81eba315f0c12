// Command samples computes inputs of the network for training. The trainer draws the series (train.py); this computes
// from them what the daemon computes from its own.
//
// All numbers are little-endian. It reads series from standard input: the numbers of minutes and of origins and the
// minutes from a midnight to the first as int32, the rates as float64, the origins (the number of minutes before each,
// ascending) as int32. For each origin it writes the features, level and spread as float32; all are zero if there is no
// input.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/forewarm/forewarm/forecaster/model"
	"github.com/forewarm/forewarm/forecaster/network"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	err := run(bufio.NewReader(os.Stdin), out)
	if err = errors.Join(err, out.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, "samples:", err)
		os.Exit(1)
	}
}

// midnight is a minute since 1970.
const midnight = 28_396_800

func run(in io.Reader, out io.Writer) error {
	for {
		var head struct{ Minutes, Origins, Offset int32 }
		if err := binary.Read(in, binary.LittleEndian, &head); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		y, origins := make([]float64, head.Minutes), make([]int32, head.Origins)
		if err := errors.Join(binary.Read(in, binary.LittleEndian, y), binary.Read(in, binary.LittleEndian, origins)); err != nil {
			return err
		}
		h := model.NewHistory()
		for i, v := range y {
			h.Push(midnight+int64(head.Offset)+int64(i), v)
			h.Settle(h.Newest)
			if len(origins) == 0 || int(origins[0]) != i+1 {
				continue
			}
			origins = origins[1:]
			x, _ := network.NewInput(h)
			if err := binary.Write(out, binary.LittleEndian, append(x.X[:], float32(x.Level), float32(x.Spread))); err != nil {
				return err
			}
		}
		if len(origins) > 0 {
			return fmt.Errorf("origin %d is not in 1…%d and above the one before", origins[0], head.Minutes)
		}
	}
}
