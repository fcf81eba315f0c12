package features

import (
	"cmp"
	"math"
	"slices"
)

// What it takes to be an archetype. A crowd that begins has to stand out more than one that ends has to sink: between the
// two, all stays as it is.
const (
	beginDepth  = 0.6  // of the pass to a higher crowd, over the own peak, at most
	endDepth    = 0.9  // at which two are one
	beginSigmas = 6.0  // by which peak and pass must differ, so that chance makes no crowds
	endSigmas   = 2.0  // the same for those that are there
	beginShare  = 0.02 // of all requests
	endShare    = 0.002

	sameWithin = 2.0 // octaves that an archetype can move from one drawing to the next
	backWithin = 1.5 // octaves from where it was that one comes back
	backLag    = 0.5 // octaves by which one that is there comes before one that may be back
	maxRetired = 64
)

// kernel smooths the histogram along each axis: binomial, with a standard deviation of one bin, half an octave.
var kernel = [...]float64{1. / 16, 4. / 16, 6. / 16, 4. / 16, 1. / 16}

// kernelVariance is the variance of a smoothed cell over its height: the sum of the squared weights.
const kernelVariance = (70. / 256) * (70. / 256)

// crowd is a peak of the histogram with the cells that rise to it.
type crowd struct {
	Archetype
	named  bool
	peak   float64
	pass   float64 // the highest way to a higher crowd, 0 when there is none
	toward int     // that crowd, −1 when there is none
	into   int     // the crowd that it is part of: itself, −1 when it is part of none
	weight float64 // requests
}

// redraw finds the crowds in the smoothed histogram: each cell belongs to the peak it rises to, and a peak that does not
// stand out from the pass to a higher one belongs to that (persistence-based clustering: Chazal, Guibas, Oudot and Skraba
// 2013, doi:10.1145/2535927; here depth is relative to the peak). Crowds are then named after the archetypes they are
// nearest to. O(cells·log cells), less than a millisecond.
func (a *Archetypes) redraw() {
	a.rewrite()
	height := smooth(&a.seen)
	crowds, of := rise(&height)
	a.weigh(crowds, &of)
	a.name(crowds)
	a.choose(crowds)
	a.weigh(crowds, &of) // of those that are left
	a.replace(crowds, &of, &height)
}

// smooth convolves along both axes. What would fall off the edge stays on it.
func smooth(in *[gridCells]float64) (out [gridCells]float64) {
	var half [gridCells]float64
	spread := func(v float64, to *[gridCells]float64, cell, at, bins, stride int) {
		for k, w := range kernel {
			to[cell+(min(max(at+k-len(kernel)/2, 0), bins-1)-at)*stride] += w * v
		}
	}
	for i, v := range in {
		if v > 0 {
			spread(v, &half, i, i/outputBins, promptBins, outputBins)
		}
	}
	for i, v := range half {
		if v > 0 {
			spread(v, &out, i, i%outputBins, outputBins, 1)
		}
	}
	return out
}

// rise gives the peaks that stand out at all, and of each cell its crowd (plus one, 0 where nothing is).
func rise(height *[gridCells]float64) (crowds []crowd, of [gridCells]int) {
	cells := make([]int, 0, gridCells)
	for i, h := range height {
		if h > 0 {
			cells = append(cells, i)
		}
	}
	slices.SortFunc(cells, func(x, y int) int { return cmp.Or(cmp.Compare(height[y], height[x]), x-y) })
	for _, cell := range cells {
		steepest := -1
		around(cell, func(n int) {
			if of[n] > 0 && (steepest < 0 || height[n] > height[steepest]) {
				steepest = n
			}
		})
		if steepest < 0 {
			of[cell] = len(crowds) + 1
			crowds = append(crowds, crowd{peak: height[cell], toward: -1, into: len(crowds)})
			continue
		}
		of[cell] = of[steepest]
		around(cell, func(n int) {
			if of[n] > 0 {
				meet(crowds, root(crowds, of[cell]-1), root(crowds, of[n]-1), height[cell])
			}
		})
	}
	return crowds, of
}

// meet tells two crowds of a pass between them; passes come in falling order.
func meet(crowds []crowd, x, y int, pass float64) {
	if x == y {
		return
	}
	if crowds[x].peak < crowds[y].peak || crowds[x].peak == crowds[y].peak && x > y {
		x, y = y, x
	}
	low := &crowds[y]
	if low.toward < 0 {
		low.toward, low.pass = x, pass
	}
	if !low.stands(endDepth, endSigmas, pass) {
		low.into = x
	}
}

func (c *crowd) stands(depth, sigmas, pass float64) bool {
	return pass <= depth*c.peak && c.peak-pass > sigmas*math.Sqrt(kernelVariance*(c.peak+pass))
}

// root is the crowd that c is part of, −1 for none.
func root(crowds []crowd, c int) int {
	for c >= 0 && crowds[c].into != c {
		c = crowds[c].into
	}
	return c
}

// around visits the up to eight neighbours of a cell.
func around(cell int, visit func(int)) {
	p, o := cell/outputBins, cell%outputBins
	for i := max(p-1, 0); i <= min(p+1, promptBins-1); i++ {
		for j := max(o-1, 0); j <= min(o+1, outputBins-1); j++ {
			if n := i*outputBins + j; n != cell {
				visit(n)
			}
		}
	}
}

// weigh gives each crowd that is part of no other its requests and its centre.
func (a *Archetypes) weigh(crowds []crowd, of *[gridCells]int) {
	for i := range crowds {
		crowds[i].weight, crowds[i].Prompt, crowds[i].Output = 0, 0, 0
	}
	for cell, v := range a.seen {
		if of[cell] == 0 || v == 0 {
			continue
		}
		if i := root(crowds, of[cell]-1); i >= 0 {
			c := &crowds[i]
			c.weight += v
			c.Prompt += v * octaves(cell/outputBins)
			c.Output += v * octaves(cell%outputBins)
		}
	}
	for i := range crowds {
		if c := &crowds[i]; c.weight > 0 {
			c.Prompt, c.Output, c.Share = c.Prompt/c.weight, c.Output/c.weight, c.weight/a.total
		}
	}
}

func octaves(bin int) float64 { return float64(bin) / perOctave }

// name gives crowds the names of the archetypes that they are nearest to, the nearest pair first. The first time, the
// largest takes the one name there is.
func (a *Archetypes) name(crowds []crowd) {
	type pair struct {
		crowd, number int
		distance      float64
	}
	var pairs []pair
	for i := range crowds {
		c := &crowds[i]
		if c.into != i || c.weight == 0 {
			continue
		}
		if a.drawn == 0 {
			pairs = append(pairs, pair{i, a.live[0].Number, -c.weight})
			continue
		}
		for k := range a.live {
			if d := c.distance(&a.live[k]); d <= sameWithin {
				pairs = append(pairs, pair{i, a.live[k].Number, d})
			}
		}
		for k := range a.retired {
			if d := c.distance(&a.retired[k]); d <= backWithin {
				pairs = append(pairs, pair{i, a.retired[k].Number, d + backLag})
			}
		}
	}
	slices.SortFunc(pairs, func(x, y pair) int {
		return cmp.Or(cmp.Compare(x.distance, y.distance), x.number-y.number, x.crowd-y.crowd)
	})
	taken := map[int]bool{}
	for _, p := range pairs {
		if c := &crowds[p.crowd]; !c.named && !taken[p.number] {
			c.named, c.Number = true, p.number
			taken[p.number] = true
		}
	}
}

// distance of two centres, in octaves.
func (a *Archetype) distance(o *Archetype) float64 {
	return math.Hypot(a.Prompt-o.Prompt, a.Output-o.Output)
}

// choose leaves the crowds that become, or stay, archetypes; the others part of the one next to them.
func (a *Archetypes) choose(crowds []crowd) {
	order := make([]int, len(crowds))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Or(cmp.Compare(crowds[x].peak, crowds[y].peak), y-x) })
	for _, i := range order { // those that begin, or have one that begins beside them, must be well apart
		c := &crowds[i]
		if c.into != i || c.toward < 0 {
			continue
		}
		h := &crowds[root(crowds, c.toward)]
		if a.has(c) && a.has(h) || c.stands(beginDepth, beginSigmas, c.pass) {
			continue
		}
		c.into = root(crowds, c.toward)
		h.weight += c.weight
		h.Share += c.Share
		if a.has(c) {
			h.Number, h.named = c.Number, true
		}
	}
	order = slices.DeleteFunc(order, func(i int) bool { return crowds[i].into != i })
	slices.SortFunc(order, func(x, y int) int { // those that are come first, and the largest
		cx, cy := &crowds[x], &crowds[y]
		if a.has(cx) != a.has(cy) {
			if a.has(cx) {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(cy.weight, cx.weight), x-y)
	})
	for n, room := 0, a.most; n < len(order); n++ {
		c, least := &crowds[order[n]], beginShare
		if a.has(c) {
			least = endShare
		}
		if n > 0 && (c.Share < least || room == 0) {
			c.into = c.toward
			continue
		}
		room--
	}
}

// has says whether a crowd is an archetype that there is.
func (a *Archetypes) has(c *crowd) bool {
	return c.named && slices.ContainsFunc(a.live, func(x Archetype) bool { return x.Number == c.Number })
}

// replace makes the crowds that are left the archetypes, and draws their borders.
func (a *Archetypes) replace(crowds []crowd, of *[gridCells]int, height *[gridCells]float64) {
	var left []int
	for i := range crowds {
		if c := &crowds[i]; c.into == i {
			if !c.named {
				c.Number = a.next
				a.next++
			}
			left = append(left, i)
		}
	}
	slices.SortFunc(left, func(x, y int) int { return crowds[x].Number - crowds[y].Number })
	before := a.live
	a.live = nil
	place := make([]uint8, len(crowds))
	for k, i := range left {
		place[i] = uint8(k)
		a.live = append(a.live, crowds[i].Archetype)
	}
	a.retire(before)

	var columns [promptBins][MaxArchetypes]float64
	for cell := range a.byBoth {
		prompt, output := cell/outputBins, cell%outputBins
		owner := -1
		if of[cell] > 0 {
			owner = root(crowds, of[cell]-1)
		}
		if owner < 0 {
			a.byBoth[cell] = a.nearest(func(x *Archetype) float64 {
				return math.Hypot(octaves(prompt)-x.Prompt, octaves(output)-x.Output)
			})
			continue
		}
		a.byBoth[cell] = place[owner]
		columns[prompt][place[owner]] += height[cell]
	}
	for prompt := range a.byFirst {
		most := 0
		for k, h := range columns[prompt] {
			if h > columns[prompt][most] {
				most = k
			}
		}
		a.byFirst[prompt] = uint8(most)
		if columns[prompt][most] == 0 {
			a.byFirst[prompt] = a.nearest(func(x *Archetype) float64 { return math.Abs(octaves(prompt) - x.Prompt) })
		}
	}
}

// retire remembers the archetypes that have ended, and forgets those that are back.
func (a *Archetypes) retire(before []Archetype) {
	is := func(list []Archetype, x *Archetype) bool {
		return slices.ContainsFunc(list, func(o Archetype) bool { return o.Number == x.Number })
	}
	a.retired = slices.DeleteFunc(a.retired, func(x Archetype) bool { return is(a.live, &x) })
	for i := range before {
		if !is(a.live, &before[i]) {
			a.retired = append(a.retired, before[i])
		}
	}
	if n := len(a.retired) - maxRetired; n > 0 {
		a.retired = slices.Delete(a.retired, 0, n)
	}
}

func (a *Archetypes) nearest(distance func(*Archetype) float64) uint8 {
	best, least := 0, math.Inf(1)
	for k := range a.live {
		if d := distance(&a.live[k]); d < least {
			best, least = k, d
		}
	}
	return uint8(best)
}
