package features

import "slices"

// backlog holds attempts that wait to be counted in their classes. With thousands of classes, what an attempt changes is in
// no cache of the processor. So the attempts are sorted by class and counted many of a class at once.
//
// Only attempts that change nothing but open minutes of their own class wait here, and a class is read only after its
// attempts were counted. So the result does not depend on when they are counted.
//
// Bound: maxBacklog attempts of 136 bytes, and fewer where there are few classes.
type backlog struct {
	waiting []waiting // in the order of the log
	active  []lane    // of the classes with attempts among them, each once
	order   []int32   // scratch of catchUp
	most    int       // attempts that waited at once since trim
}

// lane is a class with attempts that wait.
type lane struct {
	class   *class
	waiting int32 // how many
	next    int32 // scratch of catchUp
}

type waiting struct {
	lane   int32 // its class, by index in backlog.active
	effect effect
}

const (
	maxBacklog   = 1 << 17
	leastBacklog = 64
	perClass     = 24 // attempts of a class that are counted at once, on average
)

// take counts an attempt in its class, now or later.
func (a *Aggregator) take(c *class, e *effect) {
	if !a.mayWait(e) {
		if c.lane > 0 {
			a.catchUp()
		}
		a.count(c, e)
		return
	}
	b := &a.backlog
	if c.lane == 0 {
		b.active = append(b.active, lane{class: c})
		c.lane = int32(len(b.active))
	}
	b.active[c.lane-1].waiting++
	b.waiting = append(b.waiting, waiting{c.lane - 1, *e})
	if n := len(b.waiting); n == maxBacklog || n >= max(perClass*len(b.active), leastBacklog) {
		a.catchUp()
	}
}

// mayWait says that an attempt changes only its class, in minutes that are open. Tokens and KV area outside of those, and
// times that contradict each other, are counted over all classes.
func (a *Aggregator) mayWait(e *effect) bool {
	start := max(e.arrived, e.started)
	if int64(e.minute) < a.oldest() || e.event().minute() < a.oldest() || e.arrived == never && start != never && start.minute() < a.oldest() {
		return false
	}
	return e.finished == never || e.finished >= start && e.finished.minute() < a.end()-1 && (start == never || e.finished-start <= moment(maxLife))
}

// catchUp counts all attempts that wait, class after class, and those of a class in the order of the log.
func (a *Aggregator) catchUp() {
	b := &a.backlog
	b.most = max(b.most, len(b.waiting))
	order := slices.Grow(b.order[:0], len(b.waiting))[:len(b.waiting)]
	next := int32(0)
	for i := range b.active {
		l := &b.active[i]
		l.next, next = next, next+l.waiting
	}
	for i := range b.waiting {
		l := &b.active[b.waiting[i].lane]
		order[l.next] = int32(i)
		l.next++
	}
	for _, i := range order {
		a.count(b.active[b.waiting[i].lane].class, &b.waiting[i].effect)
	}
	for i := range b.active {
		b.active[i].class.lane = 0
	}
	clear(b.waiting) // it holds names
	clear(b.active)
	b.waiting, b.active, b.order = b.waiting[:0], b.active[:0], order
}

// trim frees memory that was not needed since it was called last.
func (b *backlog) trim() {
	if b.most < cap(b.waiting)/4 {
		b.waiting, b.active, b.order = nil, nil, nil
	}
	b.most = 0
}
