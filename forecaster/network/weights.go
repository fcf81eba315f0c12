package network

import (
	_ "embed" // the weights are part of the program
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
)

// magic begins a file of weights; its digit changes with the features or the shape of the network.
const magic = "forewarm net 2\n"

// Decode reads a file of weights: magic, those of Net in their order as little-endian float32, and the CRC-32 of both.
func Decode(b []byte) (*Net, error) {
	n := &Net{}
	end := len(magic) + binary.Size(n)
	switch {
	case len(b) != end+4 || string(b[:len(magic)]) != magic:
		return nil, fmt.Errorf("network: %d bytes are no weights of this version, which take %d", len(b), end+4)
	case crc32.ChecksumIEEE(b[:end]) != binary.LittleEndian.Uint32(b[end:]):
		return nil, fmt.Errorf("network: weights are damaged")
	}
	_, err := binary.Decode(b[len(magic):end], binary.LittleEndian, n)
	return n, err
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
