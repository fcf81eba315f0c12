package scrape

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/internal/value"
)

// Deps is what a Scraper needs of others.
type Deps struct {
	// Publish stores one replica report in the telemetry stream. It is called from several goroutines at once.
	Publish func(ctx context.Context, r *ingest.Replica) error
	// Took, when set, is called with the duration of each scrape, from several goroutines at once.
	Took func(time.Duration)
	// Lookup gives the addresses of a name; nil asks the system's resolver.
	Lookup func(ctx context.Context, name string) ([]string, error)
	Log    *zap.Logger
}

// Scraper asks the targets of its jobs once in each interval, spread evenly over it.
type Scraper struct {
	cfg     Config
	deps    Deps
	clients []*client // one for each job
	began   time.Time
	stats   Stats
}

// Stats are counts since the Scraper began.
type Stats struct {
	Scrapes     atomic.Uint64             // at targets
	Failures    map[string]*atomic.Uint64 // of them, by reason
	Published   atomic.Uint64             // replica reports
	Unpublished atomic.Uint64             // those that the stream did not take
	LeftOut     atomic.Uint64             // addresses of names beyond the bound on targets
	Targets     atomic.Int64              // right now
}

// New checks c and reads the files that it names; errors name the key to correct.
func New(c Config, deps Deps) (*Scraper, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Scraper{cfg: c, deps: deps}
	s.stats.Failures = map[string]*atomic.Uint64{}
	for _, reason := range Reasons {
		s.stats.Failures[reason] = new(atomic.Uint64)
	}
	if deps.Lookup == nil {
		s.deps.Lookup = net.DefaultResolver.LookupHost
	}
	for i, j := range c.Jobs {
		client, err := newClient(j)
		if err != nil {
			return nil, fmt.Errorf("jobs[%d].%w", i, err)
		}
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

// scrape scrapes one target and publishes its reports.
func (s *Scraper) scrape(ctx context.Context, t *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	began := time.Now()
	reports, err := t.scrape(asking, time.Now)
	if ctx.Err() != nil {
		return // it was we who hung up
	}
	s.stats.Scrapes.Add(1)
	if s.deps.Took != nil {
		s.deps.Took(time.Since(began))
	}
	s.note(t.client, t.address, err)
	s.publish(ctx, reports)
}

// fault is why a target cannot be scraped.
type fault struct {
	reason, text string
	since        time.Time
}

// note keeps the outcome at a target, or of the resolution of a job's name, and logs when the reason changes.
func (s *Scraper) note(c *client, target string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, failed := c.failing[target]
	log := s.deps.Log.With(zap.String("pool", c.job.Pool), zap.String("target", target))
	if err == nil {
		if delete(c.failing, target); failed {
			log.Info("engine can be scraped again")
		}
		return
	}
	now := fault{reasonOf(err), value.Printable(err.Error()), time.Now()}
	s.stats.Failures[now.reason].Add(1)
	if now.reason != before.reason {
		log.Warn("engine cannot be scraped", zap.String("reason", now.reason), zap.Error(err))
	}
	if failed {
		now.since = before.since
	}
	c.failing[target] = now
}

// faultsListed bounds the targets that Faults names.
const faultsListed = 4

// Faults says which targets of which jobs cannot be scraped, and why; "" if all can.
func (s *Scraper) Faults() string {
	var out []string
	for i, c := range s.clients {
		c.mu.Lock()
		for _, target := range slices.Sorted(maps.Keys(c.failing)) {
			f := c.failing[target]
			out = append(out, fmt.Sprintf("scrape.jobs[%d] of pool %s cannot read %s since %s: %s",
				i, c.job.Pool, c.job.url(target), f.since.UTC().Format(time.RFC3339), f.text))
		}
		c.mu.Unlock()
	}
	if more := len(out) - faultsListed; more > 0 {
		out = append(out[:faultsListed], fmt.Sprintf("and %d more targets, which the log names", more))
	}
	return strings.Join(out, "; ")
}

func (s *Scraper) publish(ctx context.Context, reports []ingest.Replica) {
	for i := range reports {
		if err := s.deps.Publish(ctx, &reports[i]); err != nil {
			s.stats.Unpublished.Add(1)
			s.deps.Log.Debug("replica report not stored", zap.String("pool", reports[i].Pool), zap.String("replica", reports[i].Name), zap.Error(err))
			continue
		}
		s.stats.Published.Add(1)
	}
}

// Stats counts everything since Run was called.
func (s *Scraper) Stats() *Stats { return &s.stats }

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
		for _, address := range slices.Sorted(slices.Values(slices.Concat(c.job.Targets, c.resolved))) {
			t := before[address]
			switch {
			case c.targets[address] != nil: // it is listed twice
				continue
			case t == nil && len(all) >= maxTargets:
				s.stats.LeftOut.Add(1)
				continue
			case t == nil:
				t = c.target(address, s.began)
				t.away, t.down = c.known, c.known
			}
			c.targets[address], all = t, append(all, t)
		}
		for address, t := range before {
			if c.targets[address] == nil {
				t.mu.Lock() // at most as long as a scrape takes
				s.publish(ctx, t.end(time.Now().UTC()))
				t.mu.Unlock()
				c.mu.Lock()
				delete(c.failing, address)
				c.mu.Unlock()
			}
		}
	}
	s.stats.Targets.Store(int64(len(all)))
	return all
}

// lookupTimeout bounds a name's resolution.
const lookupTimeout = 5 * time.Second

// lookUp resolves the name of a job, if it has one.
func (s *Scraper) lookUp(ctx context.Context, c *client) {
	c.known = c.resolved != nil
	name, port, err := net.SplitHostPort(c.job.DNS)
	if err != nil {
		return // there is none
	}
	asking, cancel := context.WithTimeout(ctx, min(lookupTimeout, s.cfg.Interval))
	defer cancel()
	hosts, err := s.deps.Lookup(asking, name)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.note(c, c.job.DNS, &failure{reasonName, err})
		return
	}
	s.note(c, c.job.DNS, nil)
	c.resolved = make([]string, 0, len(hosts))
	for _, host := range hosts {
		if !strings.Contains(host, "%") { // a link-local address
			c.resolved = append(c.resolved, net.JoinHostPort(host, port))
		}
	}
}
