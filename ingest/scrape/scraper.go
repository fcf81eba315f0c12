package scrape

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/sleep"
)

// Deps is what a Scraper needs of others.
type Deps struct {
	// Store stores the replica reports of a target in the telemetry stream. It is called from several goroutines at once.
	Store func(ctx context.Context, b *ingest.Batch) error
	// Lookup gives the addresses of a name; nil asks the system's resolver.
	Lookup func(ctx context.Context, name string) ([]string, error)
	// Note receives the error of each scrape of a target, by its job and URL, or nil. It is called from several goroutines
	// at once.
	Note func(target string, err error)
	Log  *zap.Logger
}

// Scraper asks the targets of its jobs once in each interval, spread evenly over it.
type Scraper struct {
	Failures atomic.Uint64 // of scrapes, of the resolution of names, and to store reports

	cfg     Config
	deps    Deps
	clients []*client // one for each job
	began   time.Time
}

// New reads the files that c names; errors name the key to correct.
func New(c Config, deps Deps) (*Scraper, error) {
	s := &Scraper{cfg: c, deps: deps}
	if deps.Lookup == nil {
		s.deps.Lookup = net.DefaultResolver.LookupHost
	}
	for i, j := range c.Jobs {
		client, err := newClient(j)
		if err != nil {
			return nil, fmt.Errorf("jobs[%d].%w", i, err)
		}
		client.name = fmt.Sprintf("scrape.jobs[%d] of pool %s", i, j.Pool)
		s.clients = append(s.clients, client)
	}
	return s, nil
}

// Run scrapes until ctx ends, and then returns nil.
func (s *Scraper) Run(ctx context.Context) error {
	s.began = time.Now()
	var looking sync.WaitGroup
	defer looking.Wait()
	room := make(chan struct{}, maxScrapes)
	for {
		start := time.Now()
		targets := s.find(ctx)
		for i, t := range targets {
			if !sleep.For(ctx, time.Until(start.Add(s.cfg.Interval*time.Duration(i)/time.Duration(len(targets))))) {
				return nil
			}
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			looking.Go(func() {
				defer func() { <-room }()
				s.scrape(ctx, t)
			})
		}
		if !sleep.For(ctx, time.Until(start.Add(s.cfg.Interval))) {
			return nil
		}
	}
}

func (s *Scraper) scrape(ctx context.Context, t *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, min(scrapeTimeout, s.cfg.Interval))
	defer cancel()
	reports, err := t.scrape(asking, time.Now)
	if ctx.Err() != nil {
		return // it was we who hung up
	}
	s.note(t.client, t.address, errors.Join(err, s.publish(ctx, reports)))
}

// note passes on the outcome at a target, or of the resolution of a job's name.
func (s *Scraper) note(c *client, address string, err error) {
	if err != nil {
		s.Failures.Add(1)
	}
	s.deps.Note(c.name+", "+c.job.url(address), err)
}

func (s *Scraper) publish(ctx context.Context, reports []ingest.Replica) error {
	if len(reports) == 0 {
		return nil
	}
	return s.deps.Store(ctx, &ingest.Batch{Source: "scrape", Replicas: reports}) // the clock is the daemon's
}

// find lists the targets of this round. Targets that a name no longer resolves to are reported gone. A name that does
// not resolve at all keeps its targets.
func (s *Scraper) find(ctx context.Context) (all []*target) {
	var looking sync.WaitGroup
	for _, c := range s.clients {
		looking.Go(func() { s.lookUp(ctx, c) })
	}
	looking.Wait()
	for _, c := range s.clients {
		before := c.targets
		c.targets = map[string]*target{}
		for _, address := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.job.Targets, c.resolved)))) {
			t := before[address]
			if t == nil {
				t = c.target(address, s.began)
				t.away, t.down = c.known, c.known
			}
			c.targets[address], all = t, append(all, t)
		}
		for address, t := range before {
			if c.targets[address] != nil {
				continue
			}
			t.mu.Lock() // at most as long as a scrape takes
			if err := s.publish(ctx, t.end(time.Now().UTC())); err != nil {
				s.deps.Log.Warn("that a replica is gone is not stored: features.replica_ttl ends it",
					zap.String("target", address), zap.Error(err))
			}
			t.mu.Unlock()
			s.note(c, address, nil)
		}
	}
	return all
}

func (s *Scraper) lookUp(ctx context.Context, c *client) {
	c.known = c.resolved != nil
	name, port, err := net.SplitHostPort(c.job.DNS)
	if err != nil {
		return // there is none
	}
	asking, cancel := context.WithTimeout(ctx, min(scrapeTimeout, s.cfg.Interval))
	defer cancel()
	hosts, err := s.deps.Lookup(asking, name)
	if ctx.Err() != nil {
		return
	}
	hosts = slices.DeleteFunc(hosts, func(host string) bool { return strings.Contains(host, "%") }) // link-local addresses
	if over := len(hosts) - maxTargets; over > 0 {
		slices.Sort(hosts) // name servers change the order, and the targets have to stay the same
		hosts = hosts[:maxTargets]
		err = fmt.Errorf("the name has %d addresses beyond %d, which are not scraped; make a job of each part", over, maxTargets)
	}
	s.note(c, c.job.DNS, err)
	if len(hosts) == 0 && err != nil {
		return
	}
	c.resolved = make([]string, 0, len(hosts))
	for _, host := range hosts {
		c.resolved = append(c.resolved, net.JoinHostPort(host, port))
	}
}
