package scrape

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/internal/httpclient"
)

// Config says what is scraped; without jobs nothing is.
type Config struct {
	Interval time.Duration `yaml:"interval"` // between two scrapes of a target
	Jobs     []Job         `yaml:"jobs"`
}

// Job is the engines of one pool.
type Job struct {
	Pool    string   `yaml:"pool"`
	Targets []string `yaml:"targets"` // host:port
	// DNS is a name:port with an address record for each engine, such as a headless service; it is looked up each
	// Interval.
	DNS    string `yaml:"dns"`
	Scheme string `yaml:"scheme"` // http or https; "" is http
	Path   string `yaml:"path"`   // "" is /metrics
	Engine string `yaml:"engine"` // one of Engines; "" is auto

	httpclient.Config `yaml:",inline"`
}

// DefaultConfig scrapes nothing.
func DefaultConfig() Config {
	return Config{Interval: 15 * time.Second}
}

const (
	scrapeTimeout = 10 * time.Second // of one scrape or look-up, or the interval if that is shorter
	maxTargets    = 4096             // that are listed, and addresses of one name
	maxScrapes    = 32               // at once
	maxBodyBytes  = 16 << 20         // of one answer
)

// Check names the first key that is out of bounds, its value, the bound and what to do. It opens no file and
// resolves no name.
func (c *Config) Check() error {
	if c.Interval < time.Second || c.Interval > time.Minute {
		return fmt.Errorf("interval is %s: it must be 1s to 1m, because windows are a minute and replicas age", c.Interval)
	}
	static := 0
	for i := range c.Jobs {
		if err := c.Jobs[i].check(); err != nil {
			return fmt.Errorf("jobs[%d].%w", i, err)
		}
		static += len(c.Jobs[i].Targets)
	}
	if static > maxTargets {
		return fmt.Errorf("jobs is a list of %d targets: it must be at most %d", static, maxTargets)
	}
	return nil
}

func (j *Job) check() error {
	switch {
	case j.Pool == "":
		return errors.New(`pool is "": it must name the pool that the engines serve`)
	case len(j.Targets) == 0 && j.DNS == "":
		return errors.New("targets is empty: it must list host:port, unless dns is set")
	case !slices.Contains([]string{"", "http", "https"}, j.Scheme):
		return fmt.Errorf("scheme is %q: it must be http or https", j.Scheme)
	case j.Path != "" && !strings.HasPrefix(j.Path, "/"):
		return fmt.Errorf("path is %q: it must begin with /", j.Path)
	case j.Engine != "" && !slices.Contains(Engines(), j.Engine):
		return fmt.Errorf("engine is %q: it must be one of %s", j.Engine, strings.Join(Engines(), ", "))
	}
	if err := j.Check(j.url("host:1")); err != nil {
		return err
	}
	for i, target := range j.Targets {
		if !isAddress(target) {
			return fmt.Errorf("targets[%d] is %q: it must be host:port", i, target)
		}
	}
	if j.DNS != "" && !isAddress(j.DNS) {
		return fmt.Errorf("dns is %q: it must be name:port", j.DNS)
	}
	return nil
}

func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || strings.ContainsAny(s, "/@?# \t\r\n") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// url is where a target has its metrics.
func (j *Job) url(address string) string {
	return cmp.Or(j.Scheme, "http") + "://" + address + cmp.Or(j.Path, "/metrics")
}
