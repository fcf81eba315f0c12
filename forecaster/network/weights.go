package network

import (
	_ "embed" // the weights are part of the program
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
)

// magic begins a file of weights; its digit changes with the features or the shape of the network.
const magic = "forewarm net 2\n"

// Encode returns the file format: magic, the weights as little-endian float32, and the CRC-32 of both.
func (n *Net) Encode() []byte {
	b := []byte(magic)
	for _, w := range n.Weights {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(w))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// Decode reads weights that Encode wrote.
func Decode(b []byte) (*Net, error) {
	n := &Net{}
	end := len(magic) + 4*NumWeights
	switch {
	case len(b) != end+4 || string(b[:len(magic)]) != magic:
		return nil, fmt.Errorf("network: %d bytes are no weights of this version, which take %d", len(b), end+4)
	case crc32.ChecksumIEEE(b[:end]) != binary.LittleEndian.Uint32(b[end:]):
		return nil, fmt.Errorf("network: weights are damaged")
	}
	for i := range n.Weights {
		n.Weights[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[len(magic)+4*i:]))
	}
	return n, nil
}

//go:embed weights.bin
var fitted []byte

// Fitted returns the embedded network. It panics if the embedded file is of another version: train it again.
var Fitted = sync.OnceValue(func() *Net {
	n, err := Decode(fitted)
	if err != nil {
		panic(err)
	}
	return n
})
