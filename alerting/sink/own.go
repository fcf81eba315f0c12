package sink

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// ownQueue has the daemon's own notices, which are not in the log: the newest of each identity. What could not be delivered is tried
// again when it is woken.
type ownQueue struct {
	woken chan struct{}
	round []*alerting.Delivery // those of the last waking that are not handed out yet; of the goroutine of Next

	mu      sync.Mutex                    // guards what follows
	notices map[string]*alerting.Delivery // by identity, at most ownMost
	told    map[string]string             // id under which an identity was delivered last, at most ownMost
}

// ownMost bounds the daemon's own notices: one a condition of its.
const ownMost = 256

func newOwnQueue() *ownQueue {
	return &ownQueue{woken: make(chan struct{}, 1), notices: map[string]*alerting.Delivery{}, told: map[string]string{}}
}

// add puts a notice in the place of an earlier one of its identity.
func (q *ownQueue) add(n alerting.Notice) {
	q.mu.Lock()
	defer q.mu.Unlock()
	identity, nothing := n.Identity(), func() error { return nil }
	if _, known := q.notices[identity]; !known && len(q.notices) >= ownMost {
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
func (q *ownQueue) Next(ctx context.Context, most int) ([]*alerting.Delivery, error) {
	if len(q.round) == 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-q.woken:
		}
		q.mu.Lock()
		q.round = slices.Collect(maps.Values(q.notices))
		q.mu.Unlock()
	}
	n := min(most, len(q.round))
	out := q.round[:n]
	q.round = q.round[n:]
	return out, nil
}

// Delivered implements Queue.
func (q *ownQueue) Delivered(_ context.Context, identity string) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.told[identity], nil
}

// NoteTold implements Queue.
func (q *ownQueue) NoteTold(_ context.Context, identity, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.told) >= ownMost {
		clear(q.told)
	}
	q.told[identity] = id
	return nil
}
