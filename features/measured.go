package features

// measured are values that wait to be added to the shapes of one cell: of one shape after the other, the waits for their
// memory overlap.
type measured struct {
	cell   *cell
	n      [shapeCount]uint8
	values [shapeCount][16]float64
}

// measure adds a value to a shape of a window.
func (a *Aggregator) measure(w *cell, shape int, v float64) {
	m := &a.measured
	if m.cell != w {
		m.flush(a)
		m.cell = w
	}
	m.values[shape][m.n[shape]] = v
	if m.n[shape]++; int(m.n[shape]) == len(m.values[shape]) {
		m.add(a, shape)
	}
}

func (m *measured) add(a *Aggregator, shape int) {
	a.shapesOf(m.cell)[shape].AddAll(m.values[shape][:m.n[shape]])
	m.n[shape] = 0
}

// flush adds all.
func (m *measured) flush(a *Aggregator) {
	for shape, n := range &m.n {
		if n > 0 {
			m.add(a, shape)
		}
	}
	m.cell = nil
}
