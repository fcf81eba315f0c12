package backtest

import (
	"math"

	"github.com/forewarm/forewarm/ingest"
)

// SetDesired asks for n replicas, within the pool's bounds. More are started at once and warm up; fewer means that
// those still warming up are given up, newest first, and then the ready ones with the least to do drain: they take
// nothing new, finish what they have, and go. A draining replica never comes back.
func (c *Cluster) SetDesired(n int) {
	n = min(c.cfg.Max, max(c.cfg.Min, n))
	c.orders.set(n, c.Now())
	c.metrics.ScaleActions, c.metrics.ReversedActions = c.orders.actions, c.orders.reversed
	alive := 0
	for _, r := range c.replicas {
		if r.state != ingest.ReplicaDraining {
			alive++
		}
	}
	for ; alive < n; alive++ {
		r := c.newReplica(ingest.ReplicaPending)
		c.replicas = append(c.replicas, r)
		c.observe(r)
	}
	for ; alive > n; alive-- {
		r := c.superfluous()
		if !r.serving() || r.running() == 0 {
			c.remove(r)
			continue
		}
		r.state = ingest.ReplicaDraining
		c.observe(r)
	}
}

// superfluous is the replica to give up next.
func (c *Cluster) superfluous() *replica {
	var least *replica
	for i := len(c.replicas) - 1; i >= 0; i-- {
		switch r := c.replicas[i]; {
		case r.state == ingest.ReplicaDraining:
		case !r.serving():
			return r
		case least == nil || r.running() < least.running():
			least = r
		}
	}
	return least
}

// remove takes a replica out of the pool.
func (c *Cluster) remove(r *replica) {
	r.state = ingest.ReplicaGone
	c.observe(r)
	for i := range c.replicas {
		if c.replicas[i] == r {
			c.replicas = append(c.replicas[:i], c.replicas[i+1:]...)
			return
		}
	}
}

// Desired is the number of replicas last asked for.
func (c *Cluster) Desired() int { return c.orders.target }

// counts of replicas by what they are worth.
func (c *Cluster) counts() (ready, pending int) {
	for _, r := range c.replicas {
		switch r.state {
		case ingest.ReplicaReady:
			ready++
		case ingest.ReplicaPending, ingest.ReplicaLoading:
			pending++
		}
	}
	return ready, pending
}

func (c *Cluster) waiting() int { return c.queue.len() + len(c.preempted) }

// kvUse is the highest share of its KV cache that any ready replica uses; NaN when none is ready.
func (c *Cluster) kvUse() (most float64, ok bool) {
	for _, r := range c.replicas {
		if r.state == ingest.ReplicaReady {
			r.sync(c.now)
			most, ok = max(most, r.kv/float64(c.cfg.KVCapacityTokens)), true
		}
	}
	return most, ok
}

// Observe is what an autoscaler sees of the pool; the need is not measured.
func (c *Cluster) Observe() Observation {
	o := Observation{At: c.Now(), Waiting: float64(c.waiting()), KVUse: math.NaN(), Need: math.NaN()}
	o.Ready, o.Pending = c.counts()
	if use, ok := c.kvUse(); ok {
		o.KVUse = use
	}
	return o
}
