package features

import (
	"math"
	"math/bits"
)

// delayBins is the number of logarithmic bins. Bin 0 is below 0.25 s, each next one is twice as wide, the last is open.
const delayBins = 20

// delays are those of one producer's records within a span, in nanoseconds from the event to its storing in the stream.
type delays struct {
	// Least is the smallest of all, math.MaxInt64 when there is none. LeastSure is the smallest of records with an
	// exact event time.
	Least     int64             `cbor:"1,keyasint"`
	LeastSure int64             `cbor:"2,keyasint"`
	Sure      uint64            `cbor:"3,keyasint"`
	Bins      [delayBins]uint32 `cbor:"4,keyasint"` // of the sure ones
}

var noDelays = delays{Least: math.MaxInt64, LeastSure: math.MaxInt64}

func (d *delays) add(ns int64, sure bool) {
	d.Least = min(d.Least, ns)
	if !sure {
		return
	}
	d.LeastSure = min(d.LeastSure, ns)
	d.Sure++
	d.Bins[min(bits.Len64(uint64(max(ns, 0)/250e6)), delayBins-1)]++
}

// joined merges the delays of two spans.
func (d delays) joined(o *delays) delays {
	d.Least, d.LeastSure, d.Sure = min(d.Least, o.Least), min(d.LeastSure, o.LeastSure), d.Sure+o.Sure
	for i, n := range o.Bins {
		d.Bins[i] += n
	}
	return d
}

// median is in seconds, exact to its bin; NaN when nothing is sure, and when it may be negative.
func (d *delays) median() float64 {
	if d.Sure == 0 {
		return math.NaN()
	}
	rank := d.Sure/2 + 1
	for i, n := range d.Bins {
		if uint64(n) < rank {
			rank -= uint64(n)
			continue
		}
		low, high := 0.0, 0.25*math.Exp2(float64(i))
		if i > 0 {
			low = high / 2
		} else if d.LeastSure < 0 {
			break
		}
		return max(low+(high-low)*(float64(rank)-0.5)/float64(n), delaySeconds(d.LeastSure))
	}
	return math.NaN()
}
