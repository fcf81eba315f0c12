package model

// bins are the ten-minute means of a series: ringBins values in 16 bits each. A day takes memory from its first value
// on, so a series that is a day old does not pay for a week.
type bins [ringBins / dayBins]*[dayBins * compactBytes]byte

func (b *bins) at(i int64) float32 {
	part := b[i/dayBins]
	if part == nil {
		return nan32
	}
	return compacts(part[:]).at(i % dayBins)
}

func (b *bins) set(i int64, y float32) {
	part := b[i/dayBins]
	if part == nil {
		if isNaN(y) {
			return
		}
		part = (*[dayBins * compactBytes]byte)(newCompacts(dayBins))
		b[i/dayBins] = part
	}
	compacts(part[:]).set(i%dayBins, y)
}

// state shares memory with b.
func (b *bins) state() [][]byte {
	parts := make([][]byte, len(b))
	for i, part := range b {
		if part != nil {
			parts[i] = part[:]
		}
	}
	return parts
}

// restore takes over a state; it returns false if the state has another shape.
func (b *bins) restore(parts [][]byte) bool {
	if len(parts) != len(b) {
		return false
	}
	var all bins
	for i, part := range parts {
		switch len(part) {
		case 0:
		case dayBins * compactBytes:
			all[i] = (*[dayBins * compactBytes]byte)(part)
		default:
			return false
		}
	}
	*b = all
	return true
}
