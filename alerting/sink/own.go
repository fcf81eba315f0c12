package sink

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// ownQueue has the daemon's own notices, which are not in the log: the newest of each identity. Failed ones are retried
// at the next wake.
type ownQueue struct {
	woken chan struct{}
	batch []*alerting.Delivery // of the last wake, not yet returned by Next; only for its goroutine

	mu        sync.Mutex                    // guards what follows
	notices   map[string]*alerting.Delivery // by identity, at most maxOwn
	delivered map[string]string             // identity to the id last delivered, at most maxOwn
}

// maxOwn bounds the daemon's own notices.
const maxOwn = 256

func newOwnQueue() *ownQueue {
	return &ownQueue{woken: make(chan struct{}, 1), notices: map[string]*alerting.Delivery{}, delivered: map[string]string{}}
}

// add replaces the notice of the same identity, or adds n.
func (q *ownQueue) add(n alerting.Notice) {
	q.mu.Lock()
	defer q.mu.Unlock()
	identity, nothing := n.Identity(), func() error { return nil }
	if _, known := q.notices[identity]; !known && len(q.notices) >= maxOwn {
		return
	}
	d := &alerting.Delivery{Notice: n, Stored: time.Now(), Return: nothing}
	d.Newer = func(context.Context) (alerting.Notice, bool, error) { return alerting.Notice{}, false, nil }
	d.Settle = func() error {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.notices[identity] == d {
			delete(q.notices, identity)
		}
		return nil
	}
	q.notices[identity] = d
}

func (q *ownQueue) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// Next implements Queue.
func (q *ownQueue) Next(ctx context.Context, limit int) ([]*alerting.Delivery, error) {
	if len(q.batch) == 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-q.woken:
		}
		q.mu.Lock()
		q.batch = slices.Collect(maps.Values(q.notices))
		q.mu.Unlock()
	}
	n := min(limit, len(q.batch))
	out := q.batch[:n]
	q.batch = q.batch[n:]
	return out, nil
}

// Delivered implements Queue.
func (q *ownQueue) Delivered(_ context.Context, identity string) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.delivered[identity], nil
}

// NoteTold implements Queue.
func (q *ownQueue) NoteTold(_ context.Context, identity, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.delivered) >= maxOwn {
		clear(q.delivered)
	}
	q.delivered[identity] = id
	return nil
}
