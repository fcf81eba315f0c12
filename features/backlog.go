package features

import (
	"slices"

	"github.com/forewarm/forewarm/prefetch"
)

// backlog holds attempts that wait to be folded into their classes. With thousands of classes, what an attempt changes is in
// no cache of the processor: each waits for some forty lines of memory. So they are folded many of a class at once, and
// what a class needs is fetched while those before it are folded (see fetch). What must be seen in the order of the log over all classes is
// not in here, and nothing reads a class before it has caught up: when its attempts are folded shows nowhere.
//
// At most maxBacklog attempts of 136 bytes, and fewer where there are few classes.
type backlog struct {
	waiting []effect // in the order of the log
	of      []int32  // by position in waiting: the number of its class, or none when it was folded with that alone
	back    []int32  // by position in waiting: the attempt of the same class before it, or none
	active  []int32  // numbers of the classes that have had some since all were folded
	most    int      // so long it was since it was trimmed

	ends []int32 // scratch of sort
	few  []int32 // scratch of catchUpWith
}

const (
	none         = -1
	maxBacklog   = 1 << 17
	leastBacklog = 64
	perClass     = 24 // attempts of a class that are folded at once, on average
	ringSize     = 8  // at least fetchSteps + 2
	aliasAhead   = 2  // classes
)

// next is where to put an attempt for take.
func (b *backlog) next() *effect {
	n := len(b.waiting)
	if n == cap(b.waiting) {
		room := min(max(2*n, leastBacklog), maxBacklog)
		b.waiting = append(make([]effect, 0, room), b.waiting...)
		b.of, b.back = append(make([]int32, 0, room), b.of...), append(make([]int32, 0, room), b.back...)
	}
	return &b.waiting[:n+1][n]
}

// take folds the attempt that backlog.next gave into its class, now or later.
func (a *Aggregator) take(class int32, e *effect) {
	if !a.mayWait(e) {
		c := a.classes[class].class
		a.catchUpWith(c)
		a.count(c, e)
		return
	}
	b := &a.backlog
	n := len(b.waiting)
	at := &a.classes[class]
	before := at.newest
	b.waiting, b.of, b.back = b.waiting[:n+1], append(b.of, class), append(b.back, before)
	if before == none {
		b.active = append(b.active, class)
	}
	at.newest = int32(n)
	at.waiting++
	if n++; n == maxBacklog || n >= max(perClass*len(b.active), leastBacklog) {
		a.catchUp()
	}
}

// mayWait says that an attempt changes its class alone, in minutes that are open: what tokens and area lie elsewhere, and
// times that contradict each other, are counted over all classes.
func (a *Aggregator) mayWait(e *effect) bool {
	start := max(e.arrived, e.started)
	if int64(e.minute) < a.oldest() || e.event().minute() < a.oldest() || e.arrived == never && start != never && start.minute() < a.oldest() {
		return false
	}
	return e.finished == never || e.finished >= start && e.finished.minute() < a.end()-1 && (start == never || e.finished-start <= moment(maxLife))
}

// CatchUp folds the requests that wait to be folded together with others of their class. Whatever reads the Aggregator does
// so itself: it changes nothing that shows but the time that something takes.
func (a *Aggregator) CatchUp() { a.catchUp() }

// catchUp folds all attempts that wait.
func (a *Aggregator) catchUp() {
	b := &a.backlog
	a.fold(b.active, a.sort())
	b.most = max(b.most, len(b.waiting))
	b.waiting, b.of, b.back, b.active = b.waiting[:0], b.of[:0], b.back[:0], b.active[:0]
}

// catchUpWith folds the attempts of one class that wait.
func (a *Aggregator) catchUpWith(c *class) {
	at, b := &a.classes[c.number], &a.backlog
	if at.newest == none {
		return
	}
	b.few = slices.Grow(b.few[:0], int(at.waiting))[:at.waiting]
	next := at.newest
	for i := range slices.Backward(b.few) {
		b.few[i], b.of[next] = next, none
		next = b.back[next]
	}
	a.fold([]int32{c.number}, b.few)
}

// sort gives the positions of all attempts that wait, class after class as they are active, and of a class in the order of
// the log: a counting sort (Knuth, The Art of Computer Programming 3, section 5.2), O(attempts + active classes). They take
// the place of backlog.back.
func (a *Aggregator) sort() (order []int32) {
	b := &a.backlog
	b.ends = slices.Grow(b.ends[:0], len(a.classes))[:len(a.classes)]
	n := int32(0)
	for _, number := range b.active {
		if of := &a.classes[number]; of.newest != none { // else it is in there again, or was folded alone
			b.ends[number], of.newest = n, none
			n += of.waiting
		}
	}
	order = b.back[:n]
	for at, number := range b.of {
		if number != none {
			order[b.ends[number]] = int32(at)
			b.ends[number]++
		}
	}
	return order
}

// fold folds the attempts of classes, one class after the other, and fetches what the next ones need. Their positions are
// in order, those of one class after those of the other.
func (a *Aggregator) fold(numbers, order []int32) {
	var ring [ringSize]lane // those that are being fetched
	for i := range len(numbers) + fetchSteps + 1 {
		if next := i + aliasAhead; next < len(numbers) {
			prefetch.Of(&a.classes[numbers[next]])
		}
		if i < len(numbers) {
			order = a.openLane(&ring[i%len(ring)], numbers[i], order)
		}
		for step := range fetchSteps {
			if at := i - step - 1; at >= 0 && at < len(numbers) {
				a.fetch(&ring[at%len(ring)], step)
			}
		}
		if at := i - fetchSteps - 1; at >= 0 {
			a.foldLane(&ring[at%len(ring)])
		}
	}
}

// openLane begins with the next class, whose attempts are the first of order, and gives the others.
func (a *Aggregator) openLane(l *lane, number int32, order []int32) (rest []int32) {
	of := &a.classes[number]
	n := of.waiting
	*l = lane{class: of.class, attempts: order[:n]}
	of.newest, of.waiting = none, 0
	prefetch.Of(of.class)
	for _, at := range l.attempts {
		prefetch.Of(&a.backlog.waiting[at])
	}
	return order[n:]
}

// foldLane folds the attempts of one class.
func (a *Aggregator) foldLane(l *lane) {
	for i, at := range l.attempts {
		if i+1 < len(l.attempts) { // again: the attempts of the other lanes may have driven it out
			prefetch.Of(&a.backlog.waiting[l.attempts[i+1]])
		}
		a.count(l.class, &a.backlog.waiting[at])
	}
}

// settleBacklog catches up, and lets go of room that was not needed since it was called last, and of the names in it.
func (a *Aggregator) settleBacklog() {
	a.catchUp()
	b := &a.backlog
	if b.most < cap(b.waiting)/4 {
		b.waiting, b.of, b.back, b.few = nil, nil, nil, nil
	}
	clear(b.waiting[:min(b.most, cap(b.waiting))])
	b.most = 0
}
