package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// fault is how a change to the disk fails; each says that it did.
type fault string

const (
	failed    fault = "failed"
	persisted fault = "failed, but persisted"
	torn      fault = "torn" // half of a write is there
)

var errDisk = errors.New("disk failure")

// faultyDisk is a directory whose changes from the at-th on fail, count of them. It knows what a loss of power would leave:
// of each directory the names as of its last sync, of each file the bytes as of its last sync. After a failed sync the next
// one says that all is well and leaves a hole, as file systems do.
type faultyDisk struct {
	at, count int
	how       fault
	dies      bool // with the first change that fails the process ends: nothing changes any more
	free      int64

	n       int // changes so far
	writes  map[int]bool
	hit     string
	over    bool
	names   map[string]*inode
	durable map[string]*inode
}

type inode struct {
	synced     []byte
	from, till int // bytes that a failed sync has lost
}

func newFaultyDisk() *faultyDisk {
	return &faultyDisk{free: 1 << 40, writes: map[int]bool{}, names: map[string]*inode{}, durable: map[string]*inode{}}
}

// change is one change: what it does, and what it does when it is torn.
func (d *faultyDisk) change(what string, effect, half func() error) error {
	if d.over {
		return errDisk
	}
	d.n++
	d.writes[d.n] = half != nil
	if d.n < d.at || d.n >= d.at+d.count {
		return effect()
	}
	if d.hit == "" {
		d.hit = what
	}
	switch {
	case d.how == persisted:
		_ = effect()
	case d.how == torn && half != nil:
		_ = half()
	}
	d.over = d.dies
	return errDisk
}

func (d *faultyDisk) MkdirAll(dir string) error {
	return d.change("mkdir "+filepath.Base(dir), func() error { return os.MkdirAll(dir, 0o750) }, nil)
}

func (d *faultyDisk) OpenFile(name string, flag int) (file, error) {
	var f *faultyFile
	err := d.change("open "+filepath.Base(name), func() error {
		if f != nil {
			return nil
		}
		real, err := os.OpenFile(name, flag&^os.O_WRONLY|os.O_RDWR, 0o640)
		if err != nil {
			return err
		}
		if d.names[name] == nil {
			d.names[name] = &inode{}
		}
		if flag&os.O_TRUNC != 0 {
			*d.names[name] = inode{}
		}
		f = &faultyFile{real, d, d.names[name], filepath.Base(name)}
		return nil
	}, nil)
	if err != nil {
		if f != nil {
			_ = f.real.Close()
		}
		return nil, err
	}
	return f, nil
}

func (d *faultyDisk) Rename(from, to string) error {
	return d.change("rename to "+filepath.Base(to), func() error {
		d.names[to] = d.names[from]
		delete(d.names, from)
		return os.Rename(from, to)
	}, nil)
}

func (d *faultyDisk) Remove(name string) error {
	return d.change("remove "+filepath.Base(name), func() error {
		delete(d.names, name)
		return os.Remove(name)
	}, nil)
}

func (d *faultyDisk) SyncDir(dir string) error {
	return d.change("sync directory "+filepath.Base(dir), func() error {
		for name := range d.durable {
			if filepath.Dir(name) == dir {
				delete(d.durable, name)
			}
		}
		for name, i := range d.names {
			if filepath.Dir(name) == dir {
				d.durable[name] = i
			}
		}
		return nil
	}, nil)
}

func (d *faultyDisk) Free(string) (int64, error) { return d.free, nil }

// losePower gives what is left, in a directory of its own.
func (d *faultyDisk) losePower(t *testing.T, dir string) string {
	t.Helper()
	to := dir + "-power"
	for name, i := range d.durable {
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, rel)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, i.synced, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

type faultyFile struct {
	real *os.File
	d    *faultyDisk
	*inode
	name string
}

func (f *faultyFile) Write(b []byte) (n int, err error) {
	write := func(b []byte) func() error {
		return func() error { n, err = f.real.Write(b); return err }
	}
	return n, f.d.change("write "+f.name, write(b), write(b[:len(b)/2]))
}

func (f *faultyFile) Truncate(size int64) error {
	return f.d.change("truncate "+f.name, func() error {
		if int64(f.from) >= size {
			f.from, f.till = 0, 0
		}
		return f.real.Truncate(size)
	}, nil)
}

func (f *faultyFile) Sync() error {
	effect := func() error {
		b, err := f.content()
		clear(b[min(f.from, len(b)):min(f.till, len(b))])
		f.synced = b
		return err
	}
	err := f.d.change("sync "+f.name, effect, nil)
	if err != nil && f.d.how != persisted {
		b, _ := f.content()
		f.from, f.till = len(f.synced), len(b)
	}
	return err
}

func (f *faultyFile) content() ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f.real, 0, 1<<40))
}

func (f *faultyFile) Close() error { return f.real.Close() }

// ledger is what a life of the parts was told about what it did. Ticks count from 1.
type ledger struct {
	appended, synced   int // decisions, two a tick: that Append has taken, and that Sync has
	doubted            bool
	announced, secured int // ticks
	saved              int // tick of the newest snapshot
	reported, marked   int // ticks: that the mark is said to have, and that it may have
}

var crashPools = []string{"a", "b"}

const crashTicks = 7

func crashNotice(m int) Pending {
	d := decision(m, fmt.Sprint("p", m%3))
	d.Generation, d.Publish = int64(m), true
	return Pending{Notice: alerting.Notice{Decision: d}, Expires: start.AddDate(200, 0, 0)}
}

// live opens all parts on a disk and has them work through ticks first to last, as a daemon does.
func live(t *testing.T, d *faultyDisk, dir string, first, last int) (l ledger) {
	t.Helper()
	var (
		j     *Journal
		o     *Outbox
		s     *Snapshots
		files []func() error
	)
	defer func() {
		for _, f := range files {
			_ = f()
		}
	}()
	for _, open := range []func() error{
		func() (err error) { _, err = lockless(d, dir); return err },
		func() (err error) {
			if j, err = newJournal(d, filepath.Join(dir, "journal"), quiet); err == nil {
				j.limit = 800
				files = append(files, func() error { return j.file.Close() })
			}
			return err
		},
		func() (err error) {
			if o, err = newOutbox(d, filepath.Join(dir, "outbox"), quiet); err == nil {
				files = append(files, func() error { return o.file.Close() })
			}
			return err
		},
		func() (err error) { s, err = newSnapshots(d, filepath.Join(dir, "snapshots"), quiet); return err },
	} {
		for open() != nil { // a supervisor starts it again
			if d.over {
				return l
			}
		}
	}
	if at, ok := j.Last(); ok {
		l.appended = 2*int(at.Tick.Sub(start)/time.Minute) - 2
		if at.Pool == "a" {
			l.appended++
		} else {
			l.appended += 2
		}
		l.synced = l.appended
	}
	for m := first; m <= last; m++ {
		l.tick(m, j, o)
		if l.marked = m; writeReported(d, dir, minute(m)) == nil {
			l.reported = m
		}
		if m%3 == 0 {
			l.save(m, j, o, s)
		}
		if m%4 == 0 && !d.over {
			o.rewrite = min(o.rewrite, 1) // it has grown enough to be written anew
		}
	}
	if c := j.Counters(); c.Lost+c.Divergent > 0 {
		t.Errorf("%+v", c)
	}
	return l
}

// lockless makes the directory; the lock itself is the kernel's.
func lockless(d *faultyDisk, dir string) (*DirLock, error) {
	l, err := lock(d, dir)
	if err == nil {
		err = l.Unlock()
	}
	return l, err
}

func (l *ledger) tick(m int, j *Journal, o *Outbox) {
	for i, pool := range crashPools {
		if j.Append(decision(m, pool)) == nil {
			l.appended = max(l.appended, 2*m-1+i)
		} else {
			l.doubted = true
		}
	}
	if o.Announce(minute(m), []Pending{crashNotice(m)}) == nil {
		l.announced = m
	}
	if m%2 == 0 {
		o.Settle("webhook", crashNotice(m/2).Notice.Identity(), crashNotice(m/2).Notice.ID())
	}
}

func (l *ledger) save(m int, j *Journal, o *Outbox, s *Snapshots) {
	ready := true
	if j.Sync() == nil {
		l.synced = 2 * m
		l.appended = 2 * m
	} else {
		ready, l.doubted = false, true
	}
	if o.Sync() == nil {
		l.secured, l.announced = m, m
	} else {
		ready = false
	}
	if ready {
		if _, err := s.Save(stream, uint64(m), exactly(state(uint64(m)))); err == nil {
			l.saved = m
		}
	}
}

// check looks at what a life has left: the state is a legal one, and nothing is lost that must not be. power says that what
// was not synced may be gone.
func (l *ledger) check(dir string, power bool) (snapshot int, err error) {
	j, err := newJournal(newFaultyDisk(), filepath.Join(dir, "journal"), quiet)
	if err != nil {
		return 0, err
	}
	defer j.file.Close()
	have := 0
	err = j.Read(time.Time{}, start.Add(time.Hour), func(d *alerting.Decision) error {
		if want := positionOf(decision(have/2+1, crashPools[have%2])); positionOf(d).Compare(want) != 0 {
			return fmt.Errorf("decision %d is %s, want %s", have, positionOf(d), want)
		}
		have++
		return nil
	})
	if err != nil {
		return 0, err
	}
	if least := l.floor(power || l.doubted, l.synced, l.appended); have < least {
		return 0, fmt.Errorf("the journal has %d decisions, and said that it has %d", have, least)
	}
	if snapshot, err = l.checkSnapshots(dir); err != nil {
		return 0, err
	}
	if have < 2*snapshot {
		return 0, fmt.Errorf("the journal has %d decisions, and the state includes %d", have, 2*snapshot)
	}
	return snapshot, errors.Join(l.checkOutbox(dir, power), l.checkMark(dir))
}

func (l *ledger) floor(loose bool, synced, written int) int {
	if loose {
		return synced
	}
	return written
}

func (l *ledger) checkSnapshots(dir string) (int, error) {
	s, err := newSnapshots(newFaultyDisk(), filepath.Join(dir, "snapshots"), quiet)
	if err != nil {
		return 0, err
	}
	if len(s.numbers) > snapshotsKept+2 {
		return 0, fmt.Errorf("%d snapshots", len(s.numbers))
	}
	snap, err := s.Load(stream)
	if errors.Is(err, ErrNoSnapshot) && l.saved == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	r, err := snap.Open()
	if err != nil {
		return 0, err
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return 0, err
	}
	if n := int(snap.Sequence); n < l.saved || !bytes.Equal(b, state(snap.Sequence)) {
		return 0, fmt.Errorf("the snapshot is at %d, and was said to be at %d; or it holds something else", n, l.saved)
	}
	return int(snap.Sequence), nil
}

func (l *ledger) checkOutbox(dir string, power bool) error {
	o, err := newOutbox(newFaultyDisk(), filepath.Join(dir, "outbox"), quiet)
	if err != nil {
		return err
	}
	defer o.file.Close()
	at := 0
	if a := o.Announced(); !a.IsZero() {
		at = int(a.Sub(start) / time.Minute)
	}
	if least := l.floor(power, l.secured, l.announced); at < least {
		return fmt.Errorf("the outbox is at tick %d, and said that it is at %d", at, least)
	}
	for m := max(1, at-2); m <= at; m++ {
		n := crashNotice(m).Notice
		if p, ok := o.pending[n.Identity()]; !ok || p.Notice.Decision.Generation < int64(m) {
			return fmt.Errorf("the outbox is at tick %d and lacks the notice of tick %d", at, m)
		}
	}
	return nil
}

// checkMark: what was noted is safe at once, and what was not is what was noted before, or it is there whole.
func (l *ledger) checkMark(dir string) error {
	at, ok, err := ReadReported(dir)
	if err != nil || !ok && l.reported == 0 {
		return err
	}
	if m := int(at.Sub(start) / time.Minute); !ok || m < l.reported || m > l.marked {
		return fmt.Errorf("the mark of reports is at tick %d, and was said to be at %d; the last try was %d", m, l.reported, l.marked)
	}
	return nil
}

// TestCrashMatrix fails every change that the parts make to the disk, one after the other and in every way: the call fails,
// fails but has its effect, or has half of it, alone or with those that follow, or from there on to the end. Then the process dies on the spot, or goes on
// and dies at the end; and the machine goes on, or loses its power. Whatever is left opens to a legal state that holds all
// that was said to be safe, and the replay from the snapshot fills in the rest.
func TestCrashMatrix(t *testing.T) {
	root := memoryDir(t)
	whole := newFaultyDisk()
	live(t, whole, filepath.Join(root, "whole"), 1, crashTicks)
	if whole.n < 100 {
		t.Fatalf("only %d changes", whole.n)
	}
	cases := 0
	for _, c := range []struct {
		how   fault
		dies  bool
		count int
	}{
		{failed, true, 1}, {failed, false, 1}, {failed, false, whole.n},
		{persisted, true, 1}, {persisted, false, 1},
		{torn, true, 1}, {torn, false, 1}, {torn, false, 5},
	} {
		for at := 1; at <= whole.n; at++ {
			if c.how == torn && !whole.writes[at] || testing.Short() && at%5 != 0 {
				continue // half of anything else is none of it
			}
			d := newFaultyDisk()
			d.at, d.count, d.how, d.dies = at, c.count, c.how, c.dies
			crash(t, fmt.Sprintf("change %d of %+v", at, c), d, filepath.Join(root, fmt.Sprint(cases)))
			if cases++; t.Failed() {
				return
			}
		}
	}
	t.Logf("%d changes, %d cases", whole.n, cases)
}

// memoryDir is a temporary directory in memory, where there is one: a thousand small files would wait for a real disk.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "forewarm-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// crash lives on a disk that fails, and looks at what is left with and without a loss of power.
func crash(t *testing.T, what string, d *faultyDisk, dir string) {
	t.Helper()
	l := live(t, d, dir, 1, crashTicks)
	if d.hit == "" {
		t.Fatalf("%s: nothing has failed", what)
	}
	for _, power := range []bool{true, false} {
		left := dir
		if power {
			left = d.losePower(t, dir)
		}
		snapshot, err := l.check(left, power)
		if err != nil {
			t.Errorf("%s (%s), power lost %v: %v", what, d.hit, power, err)
			return
		}
		again := live(t, newFaultyDisk(), left, snapshot+1, crashTicks+3)
		again.saved = max(again.saved, l.saved)
		if _, err := again.check(left, false); err != nil || again.appended != 2*(crashTicks+3) {
			t.Errorf("%s (%s), power lost %v, after the replay: %d decisions, %v", what, d.hit, power, again.appended, err)
		}
		_ = os.RemoveAll(left)
	}
}
