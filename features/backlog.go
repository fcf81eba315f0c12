package features

import "github.com/forewarm/forewarm/prefetch"

// backlog holds attempts that wait to be folded into their classes. With thousands of classes, what an attempt changes is in
// no cache of the processor: each waits for some forty lines of memory. So they are folded many of a class at once, and
// what a class needs is fetched while those before it are folded (see fetch). What must be seen in the order of the log over all classes is
// not in here, and nothing reads a class before it has caught up: when its attempts are folded shows nowhere.
//
// At most maxBacklog attempts of 132 bytes, and fewer where there are few classes.
type backlog struct {
	waiting []effect // in the order of the log
	back    []int32  // by position in waiting: the attempt of the same class before it, or none
	active  []int32  // numbers of the classes that have had some since all were folded
	most    int      // so long it was since it was trimmed
}

const (
	none         = -1
	maxBacklog   = 1 << 17
	leastBacklog = 64
	perClass     = 24 // attempts of a class that are folded at once, on average
	abreast      = 4  // classes whose attempts are turned together
)

// next is where to put an attempt for take.
func (b *backlog) next() *effect {
	n := len(b.waiting)
	if n == cap(b.waiting) {
		room := min(max(2*n, leastBacklog), maxBacklog)
		b.waiting, b.back = append(make([]effect, 0, room), b.waiting...), append(make([]int32, 0, room), b.back...)
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
	b.waiting, b.back = b.waiting[:n+1], append(b.back, before)
	if before == none {
		b.active = append(b.active, class)
	}
	at.newest = int32(n)
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
	a.fold(b.active)
	b.most = max(b.most, len(b.waiting))
	b.waiting, b.back, b.active = b.waiting[:0], b.back[:0], b.active[:0]
}

// catchUpWith folds the attempts of one class that wait.
func (a *Aggregator) catchUpWith(c *class) {
	if a.classes[c.number].newest != none {
		a.fold([]int32{c.number})
	}
}

// fold folds the attempts of classes, one class after the other, and fetches what the next ones need.
func (a *Aggregator) fold(numbers []int32) {
	var ring [4 * abreast]lane // those that are being fetched; at least fetchSteps + 1 + abreast
	for i := range len(numbers) + fetchSteps + 1 {
		if i%abreast == 0 && i < len(numbers) {
			a.openLanes(ring[i%len(ring):], numbers[i:])
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

// openLanes begins with the next classes, abreast of them.
func (a *Aggregator) openLanes(lanes []lane, numbers []int32) {
	n := min(abreast, len(numbers))
	for i, number := range numbers[:n] {
		of := &a.classes[number]
		lanes[i] = lane{class: of.class, first: none, rest: of.newest}
		of.newest = none
		prefetch.Of(of.class)
	}
	a.backlog.turn(lanes[:n])
}

// foldLane folds the attempts of one class.
func (a *Aggregator) foldLane(l *lane) {
	b := &a.backlog
	for at := l.first; at != none; at = b.back[at] {
		if next := b.back[at]; next != none { // again: the attempts of the other lanes may have driven it out
			prefetch.Of(&b.waiting[next])
		}
		a.count(l.class, &b.waiting[at])
	}
}

// turn links the attempts of each lane the other way round.
func (b *backlog) turn(lanes []lane) {
	for more := true; more; {
		more = false
		for i := range lanes {
			if l := &lanes[i]; l.rest != none {
				prefetch.Of(&b.waiting[l.rest])
				l.first, l.rest, b.back[l.rest] = l.rest, b.back[l.rest], l.first
				more = more || l.rest != none
			}
		}
	}
}

// settleBacklog catches up, and lets go of room that was not needed since it was called last, and of the names in it.
func (a *Aggregator) settleBacklog() {
	a.catchUp()
	b := &a.backlog
	if b.most < cap(b.waiting)/4 {
		b.waiting, b.back = nil, nil
	}
	clear(b.waiting[:min(b.most, cap(b.waiting))])
	b.most = 0
}
