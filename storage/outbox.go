package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/forewarm/forewarm/alerting"
)

const (
	outboxMagic = "forewarm outbox 1\n"
	outboxFile  = "outbox.log"

	outboxBatch = 64                 // notices a record: an alert is about 1 kB, far below a record's bound
	outboxSlack = 1 << 20            // bytes that the file may have beyond four times what it held when it was rewritten
	settledMost = 1 << 15            // identities, over all sinks, whose last delivery is remembered
	settledFor  = 7 * 24 * time.Hour // for how long
	pendingMost = 1 << 13            // identities that can wait
)

// Outbox keeps over restarts what there is to tell and what each sink has dealt with. Its file holds what was announced
// at each tick and, sink by sink, the id last dealt with of each identity. After a restart the notices that have not
// expired are offered to the sinks again, which take those that they have not dealt with; a tick that the replay makes
// again is not announced again. It is safe for concurrent use.
//
// Bounds: 8,192 identities that wait, 32,768 deliveries remembered for a week, the oldest go first; a file of at most 1 MiB
// and four times that.
type Outbox struct {
	path string
	log  *slog.Logger
	disk disk

	mu       sync.Mutex // guards what follows
	file     file
	size     int64
	rewrite  int64               // size at which the file is written anew; 0 where what the file holds is not known
	tick     time.Time           // newest tick all of whose notices are in
	pending  map[string]Pending  // newest notice of each identity
	settled  map[delivery]settle // newest id that a sink dealt with
	failures uint64
	damaged  int // bytes found damaged on opening
	buf      []byte
}

// Pending is a notice that is worth delivering until Expires, by the wall clock.
type Pending = alerting.Pending

type delivery struct{ sink, identity string }

type settle struct {
	id string
	at time.Time
}

// outboxRecord is one record of the file.
type outboxRecord struct {
	Tick    int64        `cbor:"1,keyasint,omitempty"` // Unix seconds: with these notices all of that tick are in
	Notices []Pending    `cbor:"2,keyasint,omitempty"`
	Settled []settlement `cbor:"3,keyasint,omitempty"`
}

type settlement struct {
	Sink     string `cbor:"1,keyasint"`
	Identity string `cbor:"2,keyasint"`
	ID       string `cbor:"3,keyasint"`
	At       int64  `cbor:"4,keyasint"` // Unix seconds
}

// OpenOutbox opens the outbox in dir, making it when there is none, and writes it anew. What follows damage in the file is
// lost, and said to be: those notices may not be told, or be told again under their ids.
func OpenOutbox(dir string, log *slog.Logger) (*Outbox, error) {
	return newOutbox(realDisk{}, dir, log)
}

func newOutbox(d disk, dir string, log *slog.Logger) (*Outbox, error) {
	o := &Outbox{path: filepath.Join(dir, outboxFile), log: log, disk: d, pending: map[string]Pending{}, settled: map[delivery]settle{}}
	if _, err := list(d, dir, "outbox", ".none"); err != nil { // makes the directory, removes temporary files
		return nil, fmt.Errorf("outbox %s: %w", dir, err)
	}
	if err := o.read(); err != nil {
		return nil, fmt.Errorf("outbox %s: %w; restore it, or move it away (what was not delivered is lost then)", o.path, err)
	}
	if err := o.renew(time.Now()); err != nil {
		return nil, fmt.Errorf("outbox %s: %w", o.path, err)
	}
	return o, nil
}

// read takes up what the file holds.
func (o *Outbox) read() error {
	f, err := os.Open(o.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := newRecordReader(f, outboxMagic)
	for err == nil {
		var payload []byte
		if payload, err = r.next(); err != nil {
			break
		}
		var record outboxRecord
		if err := cbor.Unmarshal(payload, &record); err != nil {
			return fmt.Errorf("record at byte %d is intact but not of this version: %w", r.offset, err)
		}
		o.take(&record)
	}
	if damage, ok := errors.AsType[*damageError](err); ok {
		if o.damaged, err = cutTail(o.disk, o.path, r.offset, outboxMagic); err != nil {
			return fmt.Errorf("%w; what follows cannot be put aside: %w", damage, err)
		}
		o.log.Warn("the outbox is damaged: what follows is lost, and may be told again or not at all",
			"file", o.path, "bytes", o.damaged, "kept_in", o.path+cutSuffix, "cause", damage.Error())
		return nil
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// take makes a record's content known. The caller holds mu, or is alone.
func (o *Outbox) take(r *outboxRecord) {
	for _, p := range r.Notices {
		if identity := p.Notice.Identity(); identity != "" {
			o.pending[identity] = p
		}
	}
	for _, s := range r.Settled {
		o.settled[delivery{s.Sink, s.Identity}] = settle{s.ID, time.Unix(s.At, 0)}
	}
	if r.Tick != 0 {
		o.tick = time.Unix(r.Tick, 0).UTC()
	}
}

// Announce stores what a tick has to tell, before it is told; without a tick, what is to be told beside. The notices are kept as they are, and must not change. After
// an error they may be told all the same: a restart forgets what is not delivered by then.
func (o *Outbox) Announce(tick time.Time, notices []Pending) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(time.Now())
	o.buf = o.buf[:0]
	records := []outboxRecord{}
	for batch := range slices.Chunk(notices, outboxBatch) {
		records = append(records, outboxRecord{Notices: batch})
	}
	if !tick.IsZero() {
		records = append(records, outboxRecord{Tick: tick.Unix()})
	}
	for i := range records {
		if err := o.frame(&records[i]); err != nil {
			return fmt.Errorf("outbox: notices of %s: %w", tick.UTC().Format(time.RFC3339), err)
		}
		o.take(&records[i])
	}
	return o.write()
}

// Announced is the newest tick all of whose notices are in, zero when there is none.
func (o *Outbox) Announced() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tick
}

// Pending are the notices that have not expired, the newest of each identity, ordered by it.
func (o *Outbox) Pending() []Pending {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(time.Now())
	var out []Pending
	for _, identity := range slices.Sorted(maps.Keys(o.pending)) {
		out = append(out, o.pending[identity])
	}
	return out
}

// Settled is the id that a sink last dealt with of an identity, "" when it has not within a week.
func (o *Outbox) Settled(sink, identity string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.settled[delivery{sink, identity}].id
}

// Settle notes that a sink has dealt with id. Where it cannot be written, a restart may tell it again under the same id;
// [Outbox.Failures] counts that.
func (o *Outbox) Settle(sink, identity, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := outboxRecord{Settled: []settlement{{sink, identity, id, time.Now().Unix()}}}
	o.take(&r)
	o.trim()
	o.buf = o.buf[:0]
	if o.frame(&r) == nil {
		_ = o.write() // counted
	}
}

// Failures are the records that could not be written.
func (o *Outbox) Failures() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failures
}

// DamagedBytes is how much of the file was found damaged on opening, and is lost.
func (o *Outbox) DamagedBytes() int { return o.damaged }

// Sync makes everything survive a loss of power. Call it before the snapshot that includes the announced ticks.
func (o *Outbox) Sync() error {
	o.mu.Lock()
	file := o.file
	var err error
	if o.rewrite == 0 {
		err = o.rewritten()
	}
	o.mu.Unlock()
	if err != nil {
		return err
	}
	err = file.Sync() // others write meanwhile
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != file {
		return nil // the file that replaced it was synced
	}
	if err != nil {
		o.rewrite = 0 // a second fsync may say that all is well
		err = fmt.Errorf("outbox %s: %w", o.path, err)
	}
	return err
}

// Close syncs and closes; the outbox is of no use afterwards.
func (o *Outbox) Close() error {
	err := o.Sync()
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(err, o.file.Close())
}

// forget drops what expired, and what is beyond the bound: by identity, for what comes again each tick will be back.
func (o *Outbox) forget(now time.Time) {
	maps.DeleteFunc(o.pending, func(_ string, p Pending) bool { return !p.Expires.After(now) })
	if len(o.pending) <= pendingMost {
		return
	}
	for _, identity := range slices.Sorted(maps.Keys(o.pending))[pendingMost:] {
		delete(o.pending, identity)
	}
}

// trim keeps the newest three quarters of the deliveries when there are too many.
func (o *Outbox) trim() {
	if len(o.settled) <= settledMost {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(o.settled), func(a, b delivery) int { return o.settled[a].at.Compare(o.settled[b].at) })
	for _, d := range oldest[:settledMost/4] {
		delete(o.settled, d)
	}
}

// frame adds a record to buf.
func (o *Outbox) frame(r *outboxRecord) error {
	payload, err := encodeDecision.Marshal(r)
	if err == nil && len(payload) > recordMost {
		err = fmt.Errorf("they have %d bytes, the most is %d", len(payload), recordMost)
	}
	if err == nil {
		o.buf = appendRecord(o.buf, payload)
	}
	return err
}

// write appends buf, and writes the file anew when it has grown beyond what it has to say.
func (o *Outbox) write() error {
	if o.size+int64(len(o.buf)) > o.rewrite {
		return o.rewritten() // with what buf says
	}
	if _, err := o.file.Write(o.buf); err != nil {
		o.failures++
		o.rewrite = 0 // what follows a torn record is not read: the next write makes the file anew
		return fmt.Errorf("outbox %s: %w", o.path, err)
	}
	o.size += int64(len(o.buf))
	return nil
}

// rewritten writes the file anew, and counts where it cannot.
func (o *Outbox) rewritten() error {
	if err := o.renew(time.Now()); err != nil {
		o.failures++
		return fmt.Errorf("outbox %s: %w", o.path, err)
	}
	return nil
}

// renew writes a file that says only what still matters, and goes on with it. After an error either may be in place, so that
// the next write tries again.
func (o *Outbox) renew(now time.Time) error {
	o.rewrite = 0
	o.forget(now)
	maps.DeleteFunc(o.settled, func(_ delivery, s settle) bool { return now.Sub(s.at) > settledFor })
	o.buf = append(o.buf[:0], outboxMagic...)
	for batch := range slices.Chunk(o.settledList(), outboxBatch) {
		if err := o.frame(&outboxRecord{Settled: batch}); err != nil {
			return err
		}
	}
	for _, identity := range slices.Sorted(maps.Keys(o.pending)) {
		if err := o.frame(&outboxRecord{Notices: []Pending{o.pending[identity]}}); err != nil {
			return err
		}
	}
	if !o.tick.IsZero() {
		if err := o.frame(&outboxRecord{Tick: o.tick.Unix()}); err != nil {
			return err
		}
	}
	if err := writeFile(o.disk, o.path, exactly(o.buf)); err != nil {
		return err
	}
	f, err := o.disk.OpenFile(o.path, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	if o.file != nil {
		_ = o.file.Close() // of the file that was replaced
	}
	o.file, o.size = f, int64(len(o.buf))
	o.rewrite = 4*o.size + outboxSlack
	return nil
}

// settledList is what was dealt with, by sink and identity.
func (o *Outbox) settledList() []settlement {
	var out []settlement
	for d, s := range o.settled {
		out = append(out, settlement{d.sink, d.identity, s.id, s.at.Unix()})
	}
	slices.SortFunc(out, func(a, b settlement) int {
		return cmp.Or(strings.Compare(a.Sink, b.Sink), strings.Compare(a.Identity, b.Identity))
	})
	return out
}
