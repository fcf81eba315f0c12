package features

// backlog holds attempts that wait to be folded into their classes. With thousands of classes, what an attempt changes is in
// no cache of the processor: each waits for some forty lines of memory. So they are folded many of a class at once, and
// the classes some at a time, so that their waits overlap. What must be seen in the order of the log over all classes is
// not in here, and nothing reads a class before it has caught up: when its attempts are folded shows nowhere.
//
// At most maxBacklog attempts of 128 bytes, and fewer where there are few classes.
type backlog struct {
	waiting []effect // in the order of the log; those of a class are linked, newest first
	newest  []int32  // by number of the class: position in waiting, or none
	active  []int32  // numbers of the classes that have had some since all were folded
	most    int      // so long it was since it was trimmed
	read    uint64   // so that reads which have no other use are not left out
}

const (
	none         = -1
	maxBacklog   = 1 << 17
	leastBacklog = 64
	perClass     = 24 // attempts of a class that are folded at once, on average
	abreast      = 8  // classes whose waits for memory overlap
)

// next is where to put an attempt for take.
func (b *backlog) next() *effect {
	n := len(b.waiting)
	if n == cap(b.waiting) {
		b.waiting = append(make([]effect, 0, min(max(2*n, leastBacklog), maxBacklog)), b.waiting...)
	}
	return &b.waiting[:n+1][n]
}

// grow makes room for classes up to a number.
func (b *backlog) grow(classes int) {
	for len(b.newest) < classes {
		b.newest = append(b.newest, none)
	}
}

// take folds the attempt that backlog.next gave into its class, now or later.
func (a *Aggregator) take(class int32, e *effect) {
	if !a.mayWait(e) {
		c := a.classes[class].class
		a.catchUpWith(c)
		a.count(c, e)
		a.measured.flush(a)
		return
	}
	b := &a.backlog
	n := len(b.waiting)
	b.waiting = b.waiting[:n+1]
	if e.back = b.newest[class]; e.back == none {
		b.active = append(b.active, class)
	}
	b.newest[class] = int32(n)
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
	for at := 0; at < len(b.active); at += abreast {
		a.fold(b.active[at:min(at+abreast, len(b.active))])
	}
	b.most = max(b.most, len(b.waiting))
	b.waiting, b.active = b.waiting[:0], b.active[:0]
}

// catchUpWith folds the attempts of one class that wait.
func (a *Aggregator) catchUpWith(c *class) {
	if a.backlog.newest[c.number] != none {
		a.fold([]int32{c.number})
	}
}

// fold folds the attempts of at most abreast classes.
func (a *Aggregator) fold(numbers []int32) {
	var lanes [abreast]lane
	b, n := &a.backlog, 0
	for _, number := range numbers {
		if b.newest[number] != none {
			lanes[n] = lane{class: a.classes[number].class, first: none, rest: b.newest[number]}
			b.newest[number] = none
			n++
		}
	}
	b.turn(lanes[:n])
	a.touch(lanes[:n])
	for i := range n {
		for at := lanes[i].first; at != none; {
			e := &b.waiting[at]
			a.count(lanes[i].class, e)
			at = e.back
		}
		a.measured.flush(a)
	}
}

// lane is a class with its attempts, linked in the order of the log from first; those from rest on are not yet.
type lane struct {
	class       *class
	first, rest int32
}

// turn links the attempts of each lane the other way round.
func (b *backlog) turn(lanes []lane) {
	read := uint64(0)
	for more := true; more; {
		more = false
		for i := range lanes {
			if l := &lanes[i]; l.rest != none {
				e := &b.waiting[l.rest]
				l.first, l.rest, e.back = l.rest, e.back, l.first
				read |= uint64(e.arrived) // the other half of it
				more = more || l.rest != none
			}
		}
	}
	b.read = read
}

// settleBacklog catches up, and lets go of room that was not needed since it was called last, and of the names in it.
func (a *Aggregator) settleBacklog() {
	a.catchUp()
	b := &a.backlog
	if b.most < cap(b.waiting)/4 {
		b.waiting = nil
	}
	clear(b.waiting[:min(b.most, cap(b.waiting))])
	b.most = 0
}
