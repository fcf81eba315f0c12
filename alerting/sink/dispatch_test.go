package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/sleep"
)

// fakeSink is a sink whose send function answers each attempt. It keeps the ids of what was delivered.
type fakeSink struct {
	name string
	send func(ctx context.Context, attempt int) error
	got  []string
	n    int
}

func (s *fakeSink) Name() string { return s.name }

func (*fakeSink) Accepts(n alerting.Notice) bool { return n.Report == nil && !isWatchdog(n) }

func (s *fakeSink) Send(ctx context.Context, n alerting.Notice) error {
	s.n++
	if s.send != nil {
		if err := s.send(ctx, s.n); err != nil {
			return err
		}
	}
	if n.Decision != nil {
		s.got = append(s.got, n.Decision.EventID())
	} else {
		s.got = append(s.got, n.Alert.Identity())
	}
	return nil
}

func decision(pool string, generation int64) alerting.Notice {
	tick := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	return alerting.Notice{Decision: &alerting.Decision{Pool: pool, Generation: generation, Tick: tick, Expires: tick.Add(15 * time.Minute)}}
}

func alert(pool string, resolved bool) alerting.Notice {
	tick := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	a := &alerting.Alert{Name: alerting.TooLateToWarm, Labels: map[string]string{"pool": pool, "resource": "kv", "severity": "page"},
		Annotations: map[string]string{"summary": "KV memory full in ~5 min"}, StartsAt: tick, UpdatedAt: tick, EndsAt: tick.Add(4 * time.Minute), Resolved: resolved}
	if resolved {
		a.UpdatedAt = tick.Add(6 * time.Minute)
		a.EndsAt = a.UpdatedAt
	}
	return alerting.Notice{Alert: a}
}

// memoryLog is a log of notices in memory, with a queue for each sink.
type memoryLog struct {
	mu        sync.Mutex
	entries   []memoryEntry
	added     chan struct{} // closed with the next entry
	queues    map[string]int
	delivered map[[2]string]string
}

type memoryEntry struct {
	notice alerting.Notice
	at     time.Time
}

func newMemoryLog() *memoryLog {
	return &memoryLog{added: make(chan struct{}), queues: map[string]int{}, delivered: map[[2]string]string{}}
}

// enqueue stores notices now.
func (m *memoryLog) enqueue(notices ...alerting.Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range notices {
		m.entries = append(m.entries, memoryEntry{n, time.Now()})
	}
	close(m.added)
	m.added = make(chan struct{})
}

func (m *memoryLog) open(sink string, reports bool) Queue {
	return &memoryQueue{m, sink, reports}
}

// left is the number of notices that a sink has not settled.
func (m *memoryLog) left(sink string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries) - m.queues[fmt.Sprint(sink, false)]
}

// memoryQueue is the queue of one sink.
type memoryQueue struct {
	*memoryLog
	sink    string
	reports bool
}

func (q *memoryQueue) Next(ctx context.Context) (next *alerting.Delivery, _ error) {
	for {
		q.mu.Lock()
		key, added := fmt.Sprint(q.sink, q.reports), q.added
		for i := q.queues[key]; i < len(q.entries) && next == nil; i++ {
			e := q.entries[i]
			if (e.notice.Report != nil) != q.reports {
				continue
			}
			next = &alerting.Delivery{
				Notice: e.notice, Stored: e.at,
				Newer: func(context.Context) (alerting.Notice, bool, error) {
					q.mu.Lock()
					defer q.mu.Unlock()
					for _, x := range slices.Backward(q.entries[i+1:]) {
						if x.notice.Identity() == e.notice.Identity() {
							return x.notice, true, nil
						}
					}
					return alerting.Notice{}, false, nil
				},
				Settle: func() error {
					q.mu.Lock()
					defer q.mu.Unlock()
					q.queues[key] = i + 1
					return nil
				},
				Return: func() error { return nil },
			}
		}
		q.mu.Unlock()
		if next != nil {
			return next, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-added:
		}
	}
}

func (q *memoryQueue) Delivered(_ context.Context, identity string) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.delivered[[2]string{q.sink, identity}], nil
}

func (q *memoryQueue) SetDelivered(_ context.Context, identity, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delivered[[2]string{q.sink, identity}] = id
	return nil
}

// nobody is a FailureFunc that is not read.
func nobody(string, alerting.Notice, int, error) {}

// run runs a dispatcher over sinks until act returns.
func run(t *testing.T, log *memoryLog, sinks []alerting.Sink, report FailureFunc, act func(d *Dispatcher)) (stats []alerting.SinkStats, err error) {
	t.Helper()
	if report == nil {
		report = nobody
	}
	d := NewDispatcher(sinks, log.open, report)
	stop := dispatch(t, d)
	act(d)
	err = stop()
	return d.Stats(), err
}

// dispatch runs a dispatcher until stop, which returns the error of Run.
func dispatch(t *testing.T, d *Dispatcher) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// TestDispatcherBacksOff: failures slow down the whole sink. They are reported when they begin, every few minutes, and
// when they end.
func TestDispatcherBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		var reported []int
		start := time.Now()
		var back atomic.Bool
		s := &fakeSink{name: "s", send: func(context.Context, int) error {
			if at = append(at, time.Since(start)); !back.Load() {
				return errors.New("refused")
			}
			return nil
		}}
		log := newMemoryLog()
		stats, err := run(t, log, []alerting.Sink{s}, func(_ string, _ alerting.Notice, failures int, err error) {
			if err == nil {
				failures = -failures
			}
			reported = append(reported, failures)
		}, func(*Dispatcher) {
			for m := range 29 {
				log.enqueue(decision("a", int64(m)))
				time.Sleep(time.Minute)
			}
			back.Store(true)
			time.Sleep(2 * time.Minute)
		})
		if err != nil {
			t.Error(err)
		}
		if n := len(at); n < 29*4 || n > 29*8+10 {
			t.Errorf("%d attempts in 29 minutes, want four to eight a minute", n)
		}
		if len(reported) != 2 || reported[0] != 1 || reported[1] >= 0 {
			t.Errorf("reported failures %v", reported)
		}
		if x := stats[0]; x.Sent != 1 || x.Lapsed != 0 {
			t.Errorf("%+v: want the newest of 29 notices sent, and none lapsed", x)
		}
	})
}

// unreadQueue fails to read until it works. It has no notice.
type unreadQueue struct {
	*memoryQueue
	works *atomic.Bool
}

func (q *unreadQueue) Next(ctx context.Context) (*alerting.Delivery, error) {
	if !q.works.Load() {
		return nil, errors.New("consumer deleted")
	}
	sleep.For(ctx, time.Minute)
	return nil, ctx.Err()
}

// TestDispatcherQueueWorksAgain: the sink is failing while its queue cannot be read. When it can be read, the failure
// ends, also without a notice.
func TestDispatcherQueueWorksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, works := newMemoryLog(), &atomic.Bool{}
		open := func(sink string, reports bool) Queue { return &unreadQueue{&memoryQueue{log, sink, reports}, works} }
		var said []bool
		d := NewDispatcher([]alerting.Sink{&fakeSink{name: "s"}}, open, func(_ string, _ alerting.Notice, _ int, err error) { said = append(said, err != nil) })
		stop, began := dispatch(t, d), time.Now()
		time.Sleep(time.Minute)
		if s := d.Stats()[0]; s.Err != "consumer deleted" || !s.Since.Equal(began) {
			t.Errorf("%+v", s)
		}
		works.Store(true)
		time.Sleep(2 * time.Minute)
		if s := d.Stats()[0]; s.Err != "" || !s.Since.IsZero() {
			t.Errorf("%+v", s)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]bool{true, false}, said); diff != "" {
			t.Error(diff)
		}
	})
}

// once fails to read a queue at the first time.
type once struct {
	*memoryQueue
	failed *atomic.Bool
}

func (q once) Next(ctx context.Context) (*alerting.Delivery, error) {
	if q.failed.CompareAndSwap(false, true) {
		return nil, errors.New("consumer deleted")
	}
	return q.memoryQueue.Next(ctx)
}

// TestDispatcherReadsButFails: that a queue can be read again does not end the failure of a sink that takes nothing.
func TestDispatcherReadsButFails(t *testing.T) {
	for name, answer := range map[string]error{"unreachable": errors.New("unreachable"), "refused": alerting.SendError{Err: errors.New("refused"), Permanent: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, failed := newMemoryLog(), &atomic.Bool{}
				open := func(sink string, reports bool) Queue { return once{&memoryQueue{log, sink, reports}, failed} }
				recovered := false
				s := &fakeSink{name: "s", send: func(context.Context, int) error { return answer }}
				d := NewDispatcher([]alerting.Sink{s}, open, func(_ string, _ alerting.Notice, _ int, err error) { recovered = recovered || err == nil })
				log.enqueue(decision("a", 1))
				stop := dispatch(t, d)
				time.Sleep(time.Minute)
				if x := d.Stats()[0]; recovered || x.Err == "" || x.Sent > 0 {
					t.Errorf("recovered %t: %+v", recovered, x)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// picky is a consumer that takes all but reports, which it answers with an error.
type picky struct{ answer error }

func (picky) Name() string { return "s" }

func (picky) Accepts(n alerting.Notice) bool { return !isWatchdog(n) }

func (s picky) Send(_ context.Context, n alerting.Notice) error {
	if n.Report != nil {
		return s.answer
	}
	return nil
}

// TestDispatcherFailsInPart: advice that is delivered each minute does not end the failure of a report that is tried
// again. It ends that of a report that was refused for good.
func TestDispatcherFailsInPart(t *testing.T) {
	for _, x := range []struct {
		answer error
		said   []bool // whether something fails
		err    string
	}{
		{errors.New("503"), []bool{true}, "503"},
		{alerting.Permanent(errors.New("413")), []bool{true, false}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := newMemoryLog()
			var said []bool
			d := NewDispatcher([]alerting.Sink{picky{x.answer}}, log.open, func(_ string, _ alerting.Notice, _ int, err error) { said = append(said, err != nil) })
			stop, began := dispatch(t, d), time.Now()
			log.enqueue(weekly())
			for i := range 10 {
				time.Sleep(time.Minute)
				log.enqueue(decision("a", int64(i)))
			}
			time.Sleep(time.Second)
			s := d.Stats()[0]
			if diff := cmp.Diff(x.said, said); s.Err != x.err || s.Err != "" && !s.Since.Equal(began) || s.Sent != 10 || diff != "" {
				t.Errorf("%+v %s", s, diff)
			}
			if s.Retried > 100 {
				t.Errorf("%d attempts in ten minutes: each delivery of advice makes the pause short again", s.Retried)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDispatcherNewestSupersedes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSink{name: "s", send: func(_ context.Context, attempt int) error {
			if attempt == 1 {
				time.Sleep(time.Second)
				return errors.New("reset")
			}
			return nil
		}}
		log := newMemoryLog()
		stats, err := run(t, log, []alerting.Sink{s}, nil, func(*Dispatcher) {
			log.enqueue(decision("a", 1))
			synctest.Wait() // the first attempt has begun
			log.enqueue(decision("a", 2), alert("a", false), decision("b", 1), decision("a", 3), alert("a", true))
			time.Sleep(time.Minute)
		})
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"b-1", "a-3", "ForewarmTooLateToWarm/a/kv"}, s.got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]alerting.SinkStats{{Sink: "s", Sent: 3, Retried: 1}}, stats); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDispatcherGivesUp(t *testing.T) {
	refused := func(context.Context, int) error { return errors.New("refused") }
	for name, tt := range map[string]struct {
		send    func(context.Context, int) error
		notices []alerting.Notice
		wait    time.Duration
		left    int
		want    func(s alerting.SinkStats) bool
	}{
		"permanent": {
			send: func(context.Context, int) error {
				return fmt.Errorf("post: %w", alerting.Permanent(errors.New("400")))
			},
			notices: []alerting.Notice{decision("a", 1)}, want: func(s alerting.SinkStats) bool { return s.Failed == 1 && s.Err != "" && s.Sent+s.Retried == 0 },
		},
		"decision expires": {
			send: refused, notices: []alerting.Notice{decision("a", 1)}, wait: 17 * time.Minute,
			want: func(s alerting.SinkStats) bool { return s.Lapsed == 1 && s.Retried > 10 },
		},
		"alert expires sooner": {
			send: refused, notices: []alerting.Notice{alert("a", false), decision("a", 1)}, wait: 7 * time.Minute, left: 1,
			want: func(s alerting.SinkStats) bool { return s.Lapsed == 1 },
		},
		"report waits": {
			send: refused, notices: []alerting.Notice{{Report: &alerting.Report{ID: "r"}}}, wait: 90 * 24 * time.Hour, left: 1,
			want: func(s alerting.SinkStats) bool { return s.Lapsed == 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeSink{name: "s", send: tt.send}
				log := newMemoryLog()
				stats, _ := run(t, log, []alerting.Sink{all{s}}, nil, func(*Dispatcher) {
					log.enqueue(tt.notices...)
					time.Sleep(tt.wait)
					synctest.Wait()
				})
				if !tt.want(stats[0]) || stats[0].Queued != tt.left {
					t.Errorf("%+v", stats[0])
				}
				if tt.notices[0].Report == nil && log.left("s") != tt.left {
					t.Errorf("%d are left, want %d", log.left("s"), tt.left)
				}
			})
		})
	}
}

// all accepts reports, too.
type all struct{ *fakeSink }

func (all) Accepts(alerting.Notice) bool { return true }

// TestDispatcherHangingSink: a sink that hangs delays no other sink, and the end of the process by lastAttempt.
func TestDispatcherHangingSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &fakeSink{name: "bad", send: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
		good := &fakeSink{name: "good"}
		start := time.Now()
		log := newMemoryLog()
		_, err := run(t, log, []alerting.Sink{bad, good}, nil, func(*Dispatcher) {
			for i := range 100 {
				log.enqueue(decision(fmt.Sprint(i), 1))
			}
			synctest.Wait()
			if len(good.got) != 100 || time.Since(start) != 0 {
				t.Errorf("%d delivered after %s, want 100 at once", len(good.got), time.Since(start))
			}
		})
		if took := time.Since(start); err != nil || took != lastAttempt {
			t.Errorf("stopped after %s with %v, want after %s", took, err, lastAttempt)
		}
	})
}

// episodes is a sink that sends an alert once when it is raised and once when it is resolved.
type episodes struct{ fakeSink }

func (*episodes) ID(n alerting.Notice) string { return fmt.Sprint(n.Alert.StartsAt, n.Alert.Resolved) }

// TestDispatcherSendsOnce: a settled notice is not sent again, neither after an update of its alert nor after a
// restart.
func TestDispatcherSendsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemoryLog()
		each, once := &fakeSink{name: "each"}, &episodes{fakeSink{name: "once"}}
		send := func(alerts ...alerting.Notice) {
			if _, err := run(t, log, []alerting.Sink{each, once}, nil, func(*Dispatcher) {
				for _, n := range alerts {
					log.enqueue(n)
					synctest.Wait()
				}
			}); err != nil {
				t.Error(err)
			}
		}
		at := func(minute int) alerting.Notice {
			n := alert("a", false)
			n.Alert.UpdatedAt = n.Alert.StartsAt.Add(time.Duration(minute) * time.Minute)
			n.Alert.EndsAt = n.Alert.UpdatedAt.Add(4 * time.Minute)
			return n
		}
		send(at(0), at(1), at(2), alert("a", true))
		if len(each.got) != 4 || len(once.got) != 2 {
			t.Errorf("%d to the sink that sends each, %d to the one that sends once; want 4 and 2", len(each.got), len(once.got))
		}
		again := at(60)
		again.Alert.StartsAt = again.Alert.UpdatedAt
		send(again)
		if len(each.got) != 5 || len(once.got) != 3 {
			t.Errorf("after a restart %d and %d, want one more each", len(each.got), len(once.got))
		}
	})
}

// TestDispatcherNotifies: the daemon's own notices bypass the log. They are retried with the next call, and sent once
// by a sink that sends an alert once.
func TestDispatcherNotifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &episodes{fakeSink{name: "s", send: func(_ context.Context, attempt int) error {
			if attempt == 1 {
				return errors.New("refused")
			}
			return nil
		}}}
		stats, err := run(t, newMemoryLog(), []alerting.Sink{s}, nil, func(d *Dispatcher) {
			for range 3 {
				d.Notify(alert("", false))
				time.Sleep(time.Minute)
			}
			d.Notify(alert("", true))
			time.Sleep(time.Minute)
		})
		if want := []alerting.SinkStats{{Sink: "s", Sent: 2, Retried: 1}}; err != nil || cmp.Diff(want, stats) != "" {
			t.Error(err, cmp.Diff(want, stats))
		}
	})
}

// TestDispatcherObeys: a consumer that answers with Retry-After gets no notice until then, nor one of the daemon itself.
// A consumer that answers 410 gets none any more. Notices that are refused for good are counted in a row.
func TestDispatcherObeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		busy := &fakeSink{name: "busy", send: func(_ context.Context, attempt int) error {
			at = append(at, time.Since(start))
			if attempt == 1 {
				return alerting.SendError{Err: errors.New("429"), After: 2 * time.Minute}
			}
			return nil
		}}
		gone := &fakeSink{name: "gone", send: func(context.Context, int) error { return alerting.SendError{Err: errors.New("410"), Gone: true} }}
		refuses := &fakeSink{name: "refuses", send: func(_ context.Context, attempt int) error {
			if attempt == 4 {
				return nil
			}
			return alerting.Permanent(errors.New("404"))
		}}
		log := newMemoryLog()
		var refused []int
		stats, err := run(t, log, []alerting.Sink{busy, gone, refuses}, func(sink string, _ alerting.Notice, failures int, _ error) {
			if sink == "refuses" {
				refused = append(refused, failures)
			}
		}, func(d *Dispatcher) {
			log.enqueue(decision("a", 1))
			synctest.Wait()
			log.enqueue(decision("a", 2), decision("b", 1))
			d.Notify(alert("", false))
			time.Sleep(5 * time.Minute)
		})
		if err != nil {
			t.Error(err)
		}
		if want := []time.Duration{0, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
		want := []alerting.SinkStats{{Sink: "busy", Sent: 3, Retried: 1}, {Sink: "gone", Failed: 1, Lapsed: 3, Disabled: true, Err: "410", Since: stats[1].Since},
			{Sink: "refuses", Sent: 1, Failed: 3}}
		if diff := cmp.Diff(want, stats); diff != "" {
			t.Error(diff)
		}
		if want := []int{1, 2, 3, 3}; !slices.Equal(refused, want) { // the last ends the row
			t.Errorf("failures in a row %v, want %v", refused, want)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
