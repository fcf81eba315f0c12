package server

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/forewarm/forewarm/internal/httpguard"
)

// Config is the configuration of the server.
type Config struct {
	Listen     string        `yaml:"listen"`      // host:port; a host other than loopback shows everything to the network
	Probes     string        `yaml:"probes"`      // host:port of /healthz and /readyz alone, without TLS, credentials and reasons; "" for none
	Hosts      []string      `yaml:"hosts"`       // additional host names of requests if it listens on loopback, such as through a proxy
	WebConfig  string        `yaml:"web_config"`  // file with TLS, users and client certificates, as Prometheus has it
	Proxy      Proxy         `yaml:"proxy"`       // that authenticates users
	Open       bool          `yaml:"open"`        // anyone on the network may read, without authentication
	StaleAfter time.Duration `yaml:"stale_after"` // wall-clock age of the last decision at which gauges are withdrawn
}

// Proxy is a proxy that authenticates users before it forwards requests.
type Proxy struct {
	UserHeader string   `yaml:"user_header"` // that it sets, such as X-Forwarded-User; "" for no proxy
	From       []string `yaml:"from"`        // addresses or networks of the proxy; others are refused
}

func (p Proxy) prefixes() (all []netip.Prefix, err error) {
	for _, text := range p.From {
		prefix, err := netip.ParsePrefix(text)
		if a, e := netip.ParseAddr(text); e == nil {
			prefix, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("proxy.from: %q is no address or network; write one such as 10.0.0.7 or 10.0.0.0/24", text)
		}
		all = append(all, prefix)
	}
	return all, nil
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{Listen: "127.0.0.1:9464", StaleAfter: 10 * time.Minute}
}

// Check is nil for a usable configuration; else it names the key, the value, the bound and the fix. It resolves no
// address.
func (c Config) Check() error {
	if err := httpguard.CheckAddress(c.Listen, 9464); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if c.Probes != "" {
		if err := httpguard.CheckAddress(c.Probes, 9463); err != nil {
			return fmt.Errorf("probes: %w", err)
		}
	}
	if _, err := c.Proxy.prefixes(); err != nil {
		return err
	}
	anyone := httpguard.IsOpen(c.Listen) && c.WebConfig == "" && c.Proxy.UserHeader == ""
	switch {
	case c.Proxy.UserHeader != "" && len(c.Proxy.From) == 0:
		return errors.New("proxy.from: no address, and anyone can send a header; name those of the proxy")
	case anyone && !c.Open:
		return fmt.Errorf("listen: %q is open to the network and asks for no credentials; set web_config or proxy, listen on 127.0.0.1, or say open: true", c.Listen)
	case c.StaleAfter < 2*time.Minute || c.StaleAfter > 24*time.Hour:
		return fmt.Errorf("stale_after: %s is out of 2m…24h; set a few times the spacing of decisions", c.StaleAfter)
	}
	return nil
}
