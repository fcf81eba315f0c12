package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/alerting"
)

// script is a sink that does what its function says; it remembers what was delivered.
type script struct {
	name string
	send func(ctx context.Context, attempt int) error
	got  []string
	n    int
}

func (s *script) Name() string { return s.name }

func (s *script) Send(ctx context.Context, n alerting.Notice) error {
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

// enqueue queues n for its life from now.
func enqueue(d *Dispatcher, n alerting.Notice) {
	d.Enqueue(alerting.Pending{Notice: n, Expires: time.Now().Add(n.Life())})
}

// deliver runs a dispatcher over sinks within a bubble of fake time; act enqueues and waits. It returns Run's error.
func deliver(t *testing.T, cfg Delivery, sinks []alerting.Sink, act func(d *Dispatcher)) (stats []Stats, err error) {
	t.Helper()
	d := NewDispatcher(cfg, sinks, nil, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	act(d)
	stop()
	err = <-done
	return d.Stats(), err
}

func TestDispatcherDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "s"}
		stats, err := deliver(t, Delivery{}, []alerting.Sink{s}, func(d *Dispatcher) {
			enqueue(d, decision("a", 1))
			enqueue(d, alert("a", false))
			enqueue(d, alerting.Notice{}) // nothing
			synctest.Wait()
		})
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"a-1", "ForewarmTooLateToWarm/a/kv"}, s.got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]Stats{{Sink: "s", Sent: 2}}, stats); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDispatcherRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		s := &script{name: "s", send: func(_ context.Context, attempt int) error {
			at = append(at, time.Since(start))
			if attempt < 5 {
				return errors.New("refused")
			}
			return nil
		}}
		d := NewDispatcher(Delivery{Backoff: time.Second, MaxBackoff: 3 * time.Second}, []alerting.Sink{s}, nil, nil)
		d.lanes[0].jitter = func() float64 { return 1 }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		enqueue(d, decision("a", 1))
		time.Sleep(time.Minute) // fake time
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 6 * time.Second, 9 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
		if diff := cmp.Diff([]Stats{{Sink: "s", Sent: 1, Retried: 4}}, d.Stats()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDispatcherNewestSupersedes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{name: "s", send: func(_ context.Context, attempt int) error {
			if attempt == 1 {
				time.Sleep(time.Second)
				return errors.New("reset")
			}
			return nil
		}}
		stats, err := deliver(t, Delivery{}, []alerting.Sink{s}, func(d *Dispatcher) {
			enqueue(d, decision("a", 1))
			synctest.Wait() // the first one is on its way
			enqueue(d, decision("a", 2))
			enqueue(d, alert("a", false))
			enqueue(d, decision("b", 1))
			enqueue(d, decision("a", 3))
			enqueue(d, alert("a", true))
			time.Sleep(time.Minute)
		})
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"a-3", "ForewarmTooLateToWarm/a/kv", "b-1"}, s.got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]Stats{{Sink: "s", Sent: 3, Superseded: 3}}, stats); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDispatcherGivesUp(t *testing.T) {
	refused := func(context.Context, int) error { return errors.New("refused") }
	tests := map[string]struct {
		send    func(context.Context, int) error
		cfg     Delivery
		notices []alerting.Notice
		wait    time.Duration
		want    func(s Stats) bool
	}{
		"permanent": {
			send: func(context.Context, int) error {
				return fmt.Errorf("post: %w", alerting.Permanent{Err: errors.New("400")})
			},
			notices: []alerting.Notice{decision("a", 1)}, want: func(s Stats) bool { return s == Stats{Sink: "s", Failed: 1} },
		},
		"decision expires": {
			send: refused, notices: []alerting.Notice{decision("a", 1)}, wait: 16 * time.Minute,
			want: func(s Stats) bool { return s.Dropped == 1 && s.Queued == 0 && s.Retried > 10 },
		},
		"alert expires sooner": {
			send: refused, notices: []alerting.Notice{alert("a", false), decision("a", 1)}, wait: 5 * time.Minute,
			want: func(s Stats) bool { return s.Dropped == 1 && s.Queued == 1 },
		},
		"full queue pushes out the oldest": {
			send: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }, cfg: Delivery{Queue: 2, Timeout: time.Hour},
			notices: []alerting.Notice{decision("a", 1), decision("b", 1), decision("c", 1), decision("d", 1)}, wait: time.Second,
			want: func(s Stats) bool { return s.Dropped >= 1 && s.Queued <= 3 },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{name: "s", send: tt.send}
				var before Stats
				deliver(t, tt.cfg, []alerting.Sink{s}, func(d *Dispatcher) {
					for _, n := range tt.notices {
						enqueue(d, n)
					}
					time.Sleep(tt.wait)
					synctest.Wait()
					before = d.Stats()[0]
				})
				if !tt.want(before) {
					t.Errorf("%+v", before)
				}
			})
		})
	}
}

// A sink that hangs, even one that ignores its context, delays neither Enqueue nor another sink.
func TestDispatcherHangingSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		bad := &script{name: "bad", send: func(context.Context, int) error { <-hang; return nil }}
		good := &script{name: "good"}
		start := time.Now()
		_, err := deliver(t, Delivery{Drain: 2 * time.Second}, []alerting.Sink{bad, good}, func(d *Dispatcher) {
			for i := range 100 {
				enqueue(d, decision(fmt.Sprint(i), 1))
			}
			synctest.Wait()
			if len(good.got) != 100 || time.Since(start) != 0 {
				t.Errorf("%d delivered after %s, want 100 at once", len(good.got), time.Since(start))
			}
		})
		if want := "100 for bad"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("stopped after %s, want the drain and a second", took)
		}
		close(hang)
	})
}

func TestDispatcherDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &script{name: "slow", send: func(ctx context.Context, _ int) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		stats, err := deliver(t, Delivery{Drain: 3500 * time.Millisecond}, []alerting.Sink{slow}, func(d *Dispatcher) {
			for i := range 5 {
				enqueue(d, decision(fmt.Sprint(i), 1))
			}
		})
		if len(slow.got) != 3 || stats[0].Queued != 2 || err == nil {
			t.Errorf("%d delivered, %d left, error %v; want 3, 2 and an error", len(slow.got), stats[0].Queued, err)
		}
	})
}

// bulk is a sink that takes several notices at once, and refuses those of a pool.
type bulk struct {
	script
	refuses string
	batches []int // sizes of what came at once
}

func (b *bulk) SendAll(ctx context.Context, notices []alerting.Notice) error {
	b.batches = append(b.batches, len(notices))
	if slices.ContainsFunc(notices, func(n alerting.Notice) bool { return n.Alert.Labels["pool"] == b.refuses }) {
		return alerting.Permanent{Err: errors.New("400")}
	}
	b.n++
	if b.send != nil {
		if err := b.send(ctx, b.n); err != nil {
			return err
		}
	}
	for _, n := range notices {
		b.got = append(b.got, n.Alert.Labels["pool"])
	}
	return nil
}

// TestDispatcherBatches: what is told at once goes at once, and goes again together; what the consumer refuses takes no other
// notice with it, and what fails then goes back alone.
func TestDispatcherBatches(t *testing.T) {
	fails := func(attempts ...int) func(context.Context, int) error {
		return func(_ context.Context, attempt int) error {
			if slices.Contains(attempts, attempt) {
				return errors.New("reset")
			}
			return nil
		}
	}
	for name, tt := range map[string]struct {
		sink    bulk
		got     []string
		batches []int
		want    Stats
	}{
		"at once":                          {bulk{}, []string{"a", "b", "c"}, []int{3}, Stats{Sent: 3}},
		"again together":                   {bulk{script: script{send: fails(1, 2)}}, []string{"a", "b", "c"}, []int{3, 3, 3}, Stats{Sent: 3, Retried: 6}},
		"one refused":                      {bulk{refuses: "b"}, []string{"a", "c"}, []int{3, 1, 1, 1}, Stats{Sent: 2, Failed: 1}},
		"one refused, then the rest fails": {bulk{refuses: "b", script: script{send: fails(2)}}, []string{"a", "c"}, []int{3, 1, 1, 1, 1}, Stats{Sent: 2, Failed: 1, Retried: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &tt.sink
				stats, err := deliver(t, Delivery{}, []alerting.Sink{s}, func(d *Dispatcher) {
					var tick []alerting.Pending
					for _, pool := range []string{"a", "b", "c"} {
						n := alert(pool, false)
						tick = append(tick, alerting.Pending{Notice: n, Expires: time.Now().Add(n.Life())})
					}
					d.Enqueue(tick...)
					time.Sleep(time.Minute)
				})
				if err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(tt.got, s.got); diff != "" {
					t.Error(diff)
				}
				if !slices.Equal(s.batches, tt.batches) {
					t.Errorf("came in %v, want %v", s.batches, tt.batches)
				}
				if diff := cmp.Diff([]Stats{tt.want}, stats); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// episodes is a sink that tells an alert once when it is raised and once when it is over.
type episodes struct{ script }

func (*episodes) ID(n alerting.Notice) string { return fmt.Sprint(n.Alert.StartsAt, n.Alert.Resolved) }

// What a sink has dealt with is not sent again, neither when it is said once more nor after a restart.
func TestDispatcherSendsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &memory{ids: map[[2]string]string{}}
		each, once := &script{name: "each"}, &episodes{script{name: "once"}}
		tell := func(alerts ...alerting.Notice) {
			d := NewDispatcher(Delivery{}, []alerting.Sink{each, once}, ledger, nil)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- d.Run(ctx) }()
			for _, n := range alerts {
				enqueue(d, n)
				synctest.Wait()
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		at := func(minute int) alerting.Notice {
			n := alert("a", false)
			n.Alert.UpdatedAt = n.Alert.StartsAt.Add(time.Duration(minute) * time.Minute)
			n.Alert.EndsAt = n.Alert.UpdatedAt.Add(4 * time.Minute)
			return n
		}
		tell(at(0), at(1), at(2), alert("a", true), alert("a", true))
		if len(each.got) != 4 || len(once.got) != 2 {
			t.Errorf("%d to the sink that tells each, %d to the one that tells once; want 4 and 2", len(each.got), len(once.got))
		}
		anew := at(60)
		anew.Alert.StartsAt = anew.Alert.UpdatedAt
		tell(alert("a", true), anew) // after a restart, the first from the outbox
		if len(each.got) != 5 || len(once.got) != 3 {
			t.Errorf("after a restart %d and %d, want one more each", len(each.got), len(once.got))
		}
		again := at(61) // goes on
		again.Alert.StartsAt = anew.Alert.StartsAt
		for _, c := range []struct {
			sink alerting.Sink
			n    alerting.Notice
			owed bool
		}{{each, anew, false}, {each, again, true}, {once, again, false}, {once, alert("b", false), true}, {each, alerting.Notice{Report: new(alerting.Report)}, false}} {
			if got := NewDispatcher(Delivery{}, []alerting.Sink{c.sink}, ledger, nil).Owes(c.n); got != c.owed {
				t.Errorf("%s owes %s: %v", c.sink.Name(), c.n.ID(), got)
			}
		}
	})
}

// A consumer that asks to be left alone is, for all notices; one that is gone gets nothing more.
func TestDispatcherObeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		busy := &script{name: "busy", send: func(_ context.Context, attempt int) error {
			at = append(at, time.Since(start))
			if attempt == 1 {
				return alerting.Later{Err: errors.New("429"), After: 2 * time.Minute}
			}
			return nil
		}}
		gone := &script{name: "gone", send: func(context.Context, int) error { return alerting.Gone{Err: errors.New("410")} }}
		stats, err := deliver(t, Delivery{}, []alerting.Sink{busy, gone}, func(d *Dispatcher) {
			enqueue(d, decision("a", 1))
			synctest.Wait()
			enqueue(d, decision("a", 2))
			enqueue(d, decision("b", 1))
			time.Sleep(5 * time.Minute)
		})
		if err != nil {
			t.Error(err)
		}
		if want := []time.Duration{0, 2 * time.Minute, 2 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
		want := []Stats{{Sink: "busy", Sent: 2, Retried: 1, Superseded: 1}, {Sink: "gone", Failed: 1, Dropped: 2, Disabled: true}}
		if diff := cmp.Diff(want, stats); diff != "" {
			t.Error(diff)
		}
	})
}
