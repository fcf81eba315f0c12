package stream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/fxamacker/cbor/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/sleep"
)

const (
	// queueBytes bounds the ticks that wait for the stream.
	queueBytes = 16 << 20
	// maxBatch is the largest batch of a server, in messages.
	maxBatch = 1000
	// firstPause is the pause after a failure. It doubles up to lastPause.
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	// awaitEvery is the time between two looks of Await.
	awaitEvery = 50 * time.Millisecond
	// requestTimeout bounds one request to the server.
	requestTimeout = 5 * time.Second
	// entryTimeout is the time that each pool adds to the bound on storing a tick.
	entryTimeout = 20 * time.Millisecond
)

// Headers of a decision.
const (
	headerFrom    = "Forewarm-Instance"
	headerVersion = "Forewarm-Version"
)

var encoding = func() cbor.EncMode {
	o := cbor.CoreDetEncOptions()
	o.Time = cbor.TimeRFC3339NanoUTC // the default drops fractions of a second
	m, err := o.EncMode()
	if err != nil {
		panic(err) // the options above are constant
	}
	return m
}()

// record is the payload of a decision's message.
type record struct {
	Decision cbor.RawMessage `cbor:"1,keyasint"`
	State    []byte          `cbor:"2,keyasint"` // of the pool after the decision
}

// Record is a decision, and the state after it.
type Record struct {
	Decision alerting.Decision
	State    []byte

	encoded []byte // the decision as it is stored
}

// Counters count the decisions since the log was opened, by result.
type Counters struct {
	Stored    uint64
	Repeated  uint64 // stored before with the same content: by a twin, or before a restart
	Divergent uint64 // stored with other content
	Waiting   uint64 // ticks not stored yet
	Lost      uint64 // ticks dropped because the queue was full
}

// Divergence is a decision that differs from the stored one. The stored one is kept.
type Divergence struct {
	Pool          string
	Tick          time.Time
	Ours, Theirs  string // desired replicas and digest of each decision
	From, Version string // writer of the stored one
}

// Config is the place of the log and its writer.
type Config struct {
	Stream   string
	Prefix   string
	Instance string // unique to this daemon
	Version  string // of the program
	// Diverged receives each divergence, on the goroutine of Run.
	Diverged func(Divergence)
	// Trouble receives the error of the last attempt to store a tick, or nil after a success.
	Trouble func(error)
}

// Log is the stream of decisions and notices. Only one goroutine may call Add; the rest is safe for concurrent use.
type Log struct {
	js  jetstream.JetStream
	cfg Config
	log *slog.Logger

	mu       sync.Mutex // guards the fields below
	changed  *sync.Cond
	queue    []*batch
	bytes    int
	failing  error // error of the last attempt to store the oldest batch
	counters Counters
	ended    uint64 // ticks that are stored or lost

	// Owned by the goroutine of Run.
	heads        map[string]*head // by subject
	since        time.Time        // tick of the restored state, which includes the decisions up to it
	comparedUpTo time.Time        // tick of the newest stored or compared decision
}

// head is a pool's newest decision that this writer knows.
type head struct {
	sequence uint64
	tick     time.Time // of that decision, if it was stored or compared; otherwise zero
	behind   bool      // the log may have newer ones
}

type batch struct {
	tick    time.Time
	entries []*entry
	bytes   int
}

// entry is what one pool adds to the log in a tick: its notices, and then its decision. The last entry has the notices of
// pools without a decision; it is written first.
type entry struct {
	pool     string // "" without a decision
	desired  int
	decision []byte // the compared part
	messages []*nats.Msg
}

func (e *entry) subject() string { return e.messages[len(e.messages)-1].Subject }

// NewLog prepares a log; Run stores. since is the newest tick of the restored state: the decisions up to it are not
// made again. newest is the tick of the log's newest decision.
func NewLog(js jetstream.JetStream, cfg Config, since, newest time.Time, log *slog.Logger) *Log {
	l := &Log{js: js, cfg: cfg, log: log, heads: map[string]*head{}, since: since, comparedUpTo: newest}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// Add queues the decisions and notices of a tick. If the queue is full it waits while the stream accepts messages. If
// the stream fails, it drops the oldest ticks and counts them.
func (l *Log) Add(tick time.Time, records []Record, notices []alerting.Notice) error {
	others, byPool := &entry{}, map[string]*entry{}
	for i := range records {
		byPool[records[i].Decision.Pool] = &entry{pool: records[i].Decision.Pool}
	}
	for i := range notices {
		m, pool, err := l.noticeMessage(&notices[i])
		if err != nil {
			return err
		}
		e := cmp.Or(byPool[pool], others)
		e.messages = append(e.messages, m)
	}
	b := &batch{tick: tick}
	for i := range records {
		d := &records[i].Decision
		e := byPool[d.Pool]
		m := nats.NewMsg(ingest.Subject(l.cfg.Prefix, ingest.DecisionSubject, d.Pool))
		m.Header.Set(headerFrom, l.cfg.Instance)
		m.Header.Set(headerVersion, l.cfg.Version)
		var err error
		if e.decision, err = encoding.Marshal(d); err == nil {
			m.Data, err = encoding.Marshal(&record{e.decision, records[i].State})
		}
		if err != nil {
			return fmt.Errorf("decision for %s at %s: %w", d.Pool, tick.Format(time.RFC3339), err)
		}
		e.desired, e.messages = d.Desired, append(e.messages, m)
		b.entries = append(b.entries, e)
	}
	for part := range slices.Chunk(others.messages, maxBatch) {
		b.entries = append(b.entries, &entry{messages: part})
	}
	for _, e := range b.entries {
		for _, m := range e.messages {
			b.bytes += len(m.Data)
		}
	}
	if len(b.entries) > 0 {
		l.push(b)
	}
	return nil
}

func (l *Log) push(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.bytes+b.bytes > queueBytes && l.failing == nil && len(l.queue) > 0 {
		l.changed.Wait()
	}
	for len(l.queue) > 1 && l.bytes+b.bytes > queueBytes { // the first is being stored
		l.bytes -= l.queue[1].bytes
		l.queue = slices.Delete(l.queue, 1, 2)
		l.counters.Lost++
		l.ended++
	}
	l.queue = append(l.queue, b)
	l.bytes += b.bytes
	l.changed.Broadcast()
}

// Added returns how many ticks were added.
func (l *Log) Added() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended + uint64(len(l.queue))
}

// Await waits until each of the first n ticks is stored, or dropped from a full queue. It fails if ctx ends, or while
// the stream cannot be written.
func (l *Log) Await(ctx context.Context, n uint64) error {
	for {
		l.mu.Lock()
		err, ended := l.failing, l.ended
		l.mu.Unlock()
		if err == nil && ended >= n {
			return nil
		}
		if err == nil && !sleep.For(ctx, awaitEvery) {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("decisions are not in the log yet: %w", err)
		}
	}
}

// Counters returns the counts since opening.
func (l *Log) Counters() Counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counters
	c.Waiting = uint64(len(l.queue))
	return c
}

func (l *Log) count(f func(c *Counters)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.counters)
}

// Run stores queued ticks until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer stop()
	pause := firstPause
	for {
		b := l.waitOldest(ctx)
		if b == nil {
			return nil
		}
		err := l.store(ctx, b)
		if err == nil {
			pause = firstPause
			l.removeOldest()
			continue
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the process ends
		}
		l.fail(err)
		sleep.For(ctx, pause)
		pause = min(2*pause, lastPause)
	}
}

// waitOldest waits for the oldest batch; nil after ctx has ended.
func (l *Log) waitOldest(ctx context.Context) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && ctx.Err() == nil {
		l.changed.Wait()
	}
	if ctx.Err() != nil {
		return nil
	}
	return l.queue[0]
}

func (l *Log) removeOldest() {
	l.mu.Lock()
	l.failing = nil
	l.bytes -= l.queue[0].bytes
	l.queue = slices.Delete(l.queue, 0, 1)
	l.ended++
	l.changed.Broadcast()
	l.mu.Unlock()
	l.cfg.Trouble(nil)
}

func (l *Log) fail(err error) {
	err = fmt.Errorf("stream %s: %w", l.cfg.Stream, err)
	l.mu.Lock()
	l.failing = err
	l.changed.Broadcast()
	l.mu.Unlock()
	l.cfg.Trouble(err)
}

// store ensures that a batch is in the stream: it writes it, or finds it there.
func (l *Log) store(ctx context.Context, b *batch) error {
	// The first comparison takes some requests for each pool.
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout+time.Duration(len(b.entries))*entryTimeout)
	defer cancel()
	stream, err := l.js.Stream(ctx, l.cfg.Stream)
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		left, err := l.compare(ctx, stream, b)
		if err != nil {
			return err
		}
		if err = l.write(ctx, b.tick, left); err == nil {
			if b.tick.After(l.comparedUpTo) {
				l.comparedUpTo = b.tick
			}
			return nil
		}
		for _, e := range left { // the result is unknown, so the log is read before the next write
			if e.pool != "" {
				l.heads[e.subject()].behind = true
			}
		}
		refused, ok := errors.AsType[*jetstream.APIError](err)
		overtaken := ok && slices.Contains(wrongLast, server.ErrorIdentifier(refused.ErrorCode))
		if !overtaken || attempt > 2 {
			return err
		}
	}
}

// wrongLast are the errors of the server if another writer was first.
var wrongLast = []server.ErrorIdentifier{server.JSStreamWrongLastSequenceErrF, server.JSStreamWrongLastSequenceConstantErr}

// compare returns the entries that the log does not have, in the order of writing. Notices without a decision are in the
// log if it has any decision of the tick, because they are written before.
func (l *Log) compare(ctx context.Context, stream jetstream.Stream, b *batch) (left []*entry, err error) {
	found := !b.tick.After(l.comparedUpTo) // a decision of the tick
	var others []*entry                    // notices without a decision
	for _, e := range b.entries {
		if e.pool == "" {
			if !found {
				others = append(others, e)
			}
			continue
		}
		h := l.heads[e.subject()]
		if h == nil {
			if h, err = l.open(ctx, stream, e.subject()); err != nil {
				return nil, err
			}
			l.heads[e.subject()] = h
		}
		exists := h.tick.Equal(b.tick) // stored or compared in an earlier attempt
		if h.behind && !exists {
			if exists, err = l.catchUp(ctx, stream, h, e, b.tick); err != nil {
				return nil, err
			}
		}
		found = found || exists
		if !exists {
			left = append(left, e)
		}
	}
	return append(others, left...), nil
}

// open finds the sequence of a pool's newest decision that the state includes.
func (l *Log) open(ctx context.Context, stream jetstream.Stream, subject string) (*head, error) {
	m, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &head{}, nil
	}
	if err != nil {
		return nil, err
	}
	if x, err := decode(m.Data); err == nil && !x.Decision.Tick.After(l.since) {
		return &head{sequence: m.Sequence}, nil
	}
	first, err := search(ctx, stream, subject, l.since.Add(1))
	return &head{sequence: first - 1, behind: true}, err
}

// catchUp reads and compares a pool's decisions up to a tick. exists reports that the tick's decision needs no write.
func (l *Log) catchUp(ctx context.Context, stream jetstream.Stream, h *head, e *entry, tick time.Time) (exists bool, err error) {
	for {
		m, err := stream.GetMsg(ctx, h.sequence+1, jetstream.WithGetMsgSubject(e.subject()))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			last, err := stream.GetLastMsgForSubject(ctx, e.subject()) // lower than known after a purge
			switch {
			case errors.Is(err, jetstream.ErrMsgNotFound):
				h.sequence = 0
			case err != nil:
				return false, err
			case last.Sequence > h.sequence:
				continue // a twin wrote between the two requests
			default:
				h.sequence = last.Sequence
			}
			h.behind = false
			return false, nil
		}
		if err != nil {
			return false, err
		}
		x, err := decode(m.Data)
		if err != nil {
			return false, fmt.Errorf("message %d is no decision of this version: %w; remove it with nats stream rmm %s %d", m.Sequence, err, l.cfg.Stream, m.Sequence)
		}
		if x.Decision.Tick.After(tick) {
			return true, nil
		}
		h.sequence = m.Sequence
		if x.Decision.Tick.Before(tick) {
			continue
		}
		h.tick = tick
		if bytes.Equal(x.encoded, e.decision) {
			l.count(func(c *Counters) { c.Repeated++ })
			return true, nil
		}
		l.count(func(c *Counters) { c.Divergent++ })
		l.cfg.Diverged(Divergence{
			Pool: e.pool, Tick: tick, Ours: summary(e.desired, e.decision), Theirs: summary(x.Decision.Desired, x.encoded),
			From: m.Header.Get(headerFrom), Version: m.Header.Get(headerVersion),
		})
		return true, nil
	}
}

func summary(desired int, decision []byte) string {
	return fmt.Sprintf("%d replicas (digest %016x)", desired, xxhash.Sum64(decision))
}

// write stores entries in atomic batches of whole entries: one batch if they have at most maxBatch messages. A batch is
// stored only if the head of each pool is the one that this writer knows.
func (l *Log) write(ctx context.Context, tick time.Time, entries []*entry) error {
	for len(entries) > 0 {
		var messages []*nats.Msg
		for len(entries) > 0 && (len(messages) == 0 || len(messages)+len(entries[0].messages) <= maxBatch) {
			messages = append(messages, entries[0].messages...)
			if entries[0].pool != "" {
				m := messages[len(messages)-1]
				m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(l.heads[m.Subject].sequence, 10))
			}
			entries = entries[1:]
		}
		last, err := l.commit(ctx, messages)
		if err != nil {
			return err
		}
		for i, m := range messages {
			if h := l.heads[m.Subject]; h != nil {
				h.sequence, h.tick = last-uint64(len(messages)-1-i), tick
				l.count(func(c *Counters) { c.Stored++ })
			}
		}
	}
	return nil
}

// commit stores all messages or none, and returns the last sequence (ADR-50 of nats-architecture-and-design).
func (l *Log) commit(ctx context.Context, messages []*nats.Msg) (last uint64, err error) {
	conn, id := l.js.Conn(), nuid.Next()
	if !conn.IsConnected() {
		return 0, nats.ErrDisconnected // the client would buffer them and send them later
	}
	final := len(messages) - 1
	for i, m := range messages {
		m.Header.Del(server.JSBatchCommit) // of an earlier attempt, with other messages
		m.Header.Del(server.JSBatchSeq)
		m.Header.Del(server.JSBatchId)
		if final > 0 { // a batch of one would make the server create and sync files
			m.Header.Set(server.JSBatchId, id)
			m.Header.Set(server.JSBatchSeq, strconv.Itoa(i+1))
		}
		if i < final {
			if err := conn.PublishMsg(m); err != nil {
				return 0, err
			}
		} else if final > 0 {
			m.Header.Set(server.JSBatchCommit, "1")
		}
	}
	answer, err := conn.RequestMsgWithContext(ctx, messages[final])
	if err != nil {
		return 0, err
	}
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
		Count    int                 `json:"count"`
	}
	switch err := json.Unmarshal(answer.Data, &ack); {
	case err != nil:
		return 0, fmt.Errorf("the server's answer to a batch: %w", err)
	case ack.Error != nil:
		return 0, ack.Error
	case ack.Sequence == 0 || ack.Count != len(messages) && len(messages) > 1:
		return 0, fmt.Errorf("the server stored %d of %d messages of a batch: it must be nats-server 2.12 or newer", ack.Count, len(messages))
	}
	return ack.Sequence, nil
}
