package sketch

// PendingSketches is how many sketches one Pending can serve.
const PendingSketches = 7

// pendingValues fill a Pending up to 512 bytes.
const pendingValues = 220

// Pending holds values of several sketches, as they come, until they are counted all at once. So what a value changes is two
// lines of memory, and not two in every sketch. Values are counted as [Quantile.Add] would have done one after the other, to
// the bit. Begin comes first; the sketches must not change between it and Count.
type Pending struct {
	sums   [PendingSketches]float64 // of the sketches, with what is pending
	n      int
	values [pendingValues]uint16 // the bin, below the number of the sketch
}

const pendingShift = 13 // above the largest bin

// Begin takes up sketches; p must be empty. Nil stands for empty ones.
func (p *Pending) Begin(of []Quantile) {
	p.sums = [PendingSketches]float64{}
	for i := range of {
		p.sums[i] = of[i].sum
	}
}

// Add takes a value for a sketch, and says whether there is room for another. NaN and negative values are left out.
func (p *Pending) Add(sketch int, v float64) (room bool) {
	if v >= 0 {
		v = min(v, MaxValue)
		p.sums[sketch] += v
		p.values[p.n] = uint16(sketch)<<pendingShift | binOf(v)
		p.n++
	}
	return p.n < pendingValues
}

// Count counts in the sketches what is pending: those that Begin was given, or copies of them. The Pending stays as it is.
func (p *Pending) Count(in []Quantile) {
	countAll(in, p.values[:p.n])
	for i := range in {
		in[i].sum = p.sums[i]
	}
}

// countAll is [Quantile.add] for each value, without the calls where that has little to do.
func countAll(in []Quantile, values []uint16) {
	for _, x := range values {
		s, bin := &in[x>>pendingShift], x&(1<<pendingShift-1)
		switch i := int(bin) - int(s.low); {
		case uint(i) < uint(len(s.dense)):
			s.count++
			s.dense[i] = saturating(s.dense[i], 1)
		case bin <= s.high && i >= 0 && len(s.list) < int(s.most):
			s.count++
			s.list = append(s.list, bin)
		default:
			s.add(bin, 1)
		}
	}
}

// Clear empties p.
func (p *Pending) Clear() { p.n = 0 }
