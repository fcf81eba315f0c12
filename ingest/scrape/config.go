package scrape

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config says what is scraped; without jobs nothing is.
type Config struct {
	Interval     time.Duration `yaml:"interval"`       // between two looks at a target
	Timeout      time.Duration `yaml:"timeout"`        // of one look, at most Interval
	Concurrency  int           `yaml:"concurrency"`    // targets asked at once
	MaxBodyBytes int64         `yaml:"max_body_bytes"` // of one answer, decompressed
	Jobs         []Job         `yaml:"jobs"`
}

// Job is the engines of one pool.
type Job struct {
	Pool    string   `yaml:"pool"`
	Targets []string `yaml:"targets"` // host:port
	// DNS is a name:port with an address record for each engine, such as a headless service; it is looked up each Interval.
	DNS    string `yaml:"dns"`
	Scheme string `yaml:"scheme"` // http or https; "" is http
	Path   string `yaml:"path"`   // "" is /metrics
	Engine string `yaml:"engine"` // one of Engines; "" is auto

	BearerTokenFile string `yaml:"bearer_token_file"` // read at each look, so that it can rotate
	TLS             TLS    `yaml:"tls"`
}

// TLS names the files of a TLS connection; all empty trusts what the system trusts.
type TLS struct {
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// DefaultConfig scrapes nothing.
func DefaultConfig() Config {
	return Config{Interval: 15 * time.Second, Timeout: 10 * time.Second, Concurrency: 16, MaxBodyBytes: 16 << 20}
}

// maxTargets bounds the targets of all jobs together; those beyond it are left out and counted.
const maxTargets = 4096

// Validate names the first key that is out of bounds, its value, the bound and the mend. It opens no file and resolves no
// name.
func (c *Config) Validate() error {
	switch {
	case c.Interval < time.Second || c.Interval > time.Minute:
		return fmt.Errorf("interval is %s: it must be 1s to 1m, for windows are a minute and replicas age", c.Interval)
	case c.Timeout < 100*time.Millisecond || c.Timeout > c.Interval:
		return fmt.Errorf("timeout is %s: it must be 100ms to the interval, %s", c.Timeout, c.Interval)
	case c.Concurrency < 1 || c.Concurrency > 1024:
		return fmt.Errorf("concurrency is %d: it must be 1 to 1024", c.Concurrency)
	case c.MaxBodyBytes < 1<<10 || c.MaxBodyBytes > 256<<20:
		return fmt.Errorf("max_body_bytes is %d: it must be 1024 to 268435456 (256 MiB)", c.MaxBodyBytes)
	}
	static := 0
	for i := range c.Jobs {
		if err := c.Jobs[i].validate(); err != nil {
			return fmt.Errorf("jobs[%d].%w", i, err)
		}
		static += len(c.Jobs[i].Targets)
	}
	if static > maxTargets {
		return fmt.Errorf("jobs is a list of %d targets: it must be at most %d", static, maxTargets)
	}
	return nil
}

func (j *Job) validate() error {
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
	case j.Scheme != "https" && j.TLS != (TLS{}):
		return errors.New("tls is set: it must come with scheme: https")
	case (j.TLS.CertFile == "") != (j.TLS.KeyFile == ""):
		return fmt.Errorf("tls.cert_file is %q: it must be set together with tls.key_file", j.TLS.CertFile)
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

// complete fills in what is left out.
func (j Job) complete() Job {
	j.Scheme, j.Path, j.Engine = cmp.Or(j.Scheme, "http"), cmp.Or(j.Path, "/metrics"), cmp.Or(j.Engine, Auto)
	return j
}

// Open reads the files; errors name the key to mend, beginning with tls.
func (t TLS) Open() (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file is %q: %w; name a file that the daemon may read", t.CAFile, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file is %q: it holds no certificate in PEM; name one that does", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file is %q: %w; name a certificate and its key in PEM", t.CertFile, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
