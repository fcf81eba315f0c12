package scrape

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// lookupTimeout bounds a name's resolution.
const lookupTimeout = 5 * time.Second

// resolve gives the addresses of each job: its targets, and those of its name. Names are looked up at once; one
// that does not resolve leaves what it stood for.
func (s *Scraper) resolve(ctx context.Context) [][]string {
	ctx, cancel := context.WithTimeout(ctx, min(lookupTimeout, s.cfg.Interval))
	defer cancel()
	all := make([][]string, len(s.clients))
	var looking sync.WaitGroup
	for i, c := range s.clients {
		all[i] = slices.Clone(c.job.Targets)
		if c.job.DNS == "" {
			continue
		}
		looking.Go(func() {
			c.listed = c.last != nil
			addresses, err := s.lookup(ctx, c.job.DNS)
			if err != nil {
				if ctx.Err() == nil {
					s.stats.Failures[reasonName].Add(1)
				}
				s.deps.Log.Debug("name does not resolve", zap.String("pool", c.job.Pool), zap.String("dns", c.job.DNS), zap.Error(err))
				addresses = c.last
			}
			c.last = addresses
			all[i] = append(all[i], addresses...)
		})
	}
	looking.Wait()
	for i := range all {
		slices.Sort(all[i])
		all[i] = slices.Compact(all[i])
	}
	return all
}

// lookup gives the addresses of a name:port.
func (s *Scraper) lookup(ctx context.Context, dns string) ([]string, error) {
	name, port, err := net.SplitHostPort(dns)
	if err != nil {
		return nil, err
	}
	hosts, err := s.deps.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	addresses := make([]string, 0, len(hosts))
	for _, host := range hosts {
		if !strings.Contains(host, "%") { // a link-local address
			addresses = append(addresses, net.JoinHostPort(host, port))
		}
	}
	return addresses, nil
}
