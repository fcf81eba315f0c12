package features

import "math"

// touch reads what folding is going to change, step by step along the pointers and for all lanes at each step, so that the
// waits for their memory overlap. It changes nothing that shows.
func (a *Aggregator) touch(lanes []lane) {
	var cells [abreast]*cell
	read := uint64(0)
	for i := range lanes {
		c := lanes[i].class
		e := &c.expected
		read |= uint64(c.born) | word(c.moments.OutputSq) | uint64(c.open) | uint64(len(c.cells)) | word(c.late.Records) |
			word32(e.Output[0].N) | word32(e.Output[5].N) | word32(e.Cached[3].N) | word32(e.Decode.N)
	}
	for i := range lanes {
		l := &lanes[i]
		cells[i] = a.find(l.class, max(int64(a.backlog.waiting[l.first].minute), a.oldest()))
		if l.class.tenants != nil {
			read |= word(l.class.tenants.names.Total())
		}
	}
	for i := range lanes {
		if at := cells[i]; at != nil {
			read |= word(at.Records) | word(at.Rejected) | word(at.OutputKnown) | word(at.OutputTokens) | word(at.KVSlots[0]) | word(at.KVModelled) |
				word(at.Moments.OutputSq) | word(at.PromptRetried) | word(at.KVDelayed) | word32(at.pace.N)
			if at.shapes != nil {
				read |= uint64(len(at.shapes))
			}
		}
		if l := &lanes[i]; l.class.tenants != nil {
			read |= l.class.tenants.names.Touch()
		}
	}
	for _, at := range &cells {
		if at != nil && at.shapes != nil {
			for j := range at.shapes {
				read |= at.shapes[j].Touch()
			}
		}
	}
	a.backlog.read = read
}

func word(v float64) uint64 { return math.Float64bits(v) }

func word32(v float32) uint64 { return uint64(math.Float32bits(v)) }
