package sketch

import "github.com/forewarm/forewarm/prefetch"

// PendingSketches is how many sketches one Pending can serve.
const PendingSketches = 7

// pendingValues fill a Pending up to 512 bytes, pendingParts as many again a PendingRoom up to 2 KiB.
const (
	pendingValues = 220
	pendingParts  = 4
)

// Pending holds values of several sketches, as they come, until they are counted all at once. So what a value changes is two
// lines of memory, and not two in every sketch. Values are counted as [Quantile.Add] would have done one after the other, to
// the bit. Begin comes first; the sketches must not change between it and Count.
type Pending struct {
	sums   [PendingSketches]float64 // of the sketches, with what is pending
	n      int
	values [pendingValues]uint16 // the bin, below the number of the sketch
	room   *PendingRoom          // what came before values; nil when nothing did
}

// PendingRoom is what a Pending can be given when it is full: the more values are counted at once, the more of them share a
// line of memory of their sketch, which is in no cache of the processor when there are many.
type PendingRoom struct {
	n      int
	values [pendingParts * pendingValues]uint16
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

// Extensible says whether Extend can make place; if not, all that p can hold is there once Add has none left.
func (p *Pending) Extensible() bool { return p.room == nil || p.room.n < len(p.room.values) }

// Extend makes place for more values when Add has none left: in the room that p has, or else in fresh(). It says whether it
// did.
func (p *Pending) Extend(fresh func() *PendingRoom) bool {
	if !p.Extensible() {
		return false
	}
	if p.room == nil {
		p.room = fresh()
	}
	p.room.n += copy(p.room.values[p.room.n:], p.values[:p.n])
	p.n = 0
	return true
}

// Count counts in the sketches what is pending: those that Begin was given, or copies of them. The Pending stays as it is.
func (p *Pending) Count(in []Quantile) {
	if p.room != nil {
		countAll(in, p.room.values[:p.room.n])
	}
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

// Clear empties p, and gives the room that it had, nil for none.
func (p *Pending) Clear() (room *PendingRoom) {
	if room = p.room; room != nil {
		room.n = 0
	}
	p.n, p.room = 0, nil
	return room
}

// Copy makes p what o is, in memory of its own: in fresh() if o has room.
func (p *Pending) Copy(o *Pending, fresh func() *PendingRoom) {
	*p = *o
	if o.room != nil {
		p.room = fresh()
		*p.room = *o.room
	}
}

// Extended says whether p has room that is to be given back.
func (p *Pending) Extended() bool { return p.room != nil }

// Fetch asks for the memory of what p begins with. It changes nothing.
func (p *Pending) Fetch() { prefetch.Of(&p.sums) }

// FetchNext asks, when what p begins with is there, for the memory where the next values go, and says whether n more are
// going to find room. It changes nothing.
func (p *Pending) FetchNext(n int) (room bool) {
	prefetch.Slice(p.values[p.n:min(p.n+n, pendingValues)])
	return p.n+n < pendingValues
}
