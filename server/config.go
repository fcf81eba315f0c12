package server

import (
	"fmt"

	"github.com/forewarm/forewarm/internal/httpguard"
)

// Config is the configuration of the server.
type Config struct {
	Listen    string   `yaml:"listen"`     // host:port; a host other than loopback shows everything to the network
	Probes    string   `yaml:"probes"`     // host:port of /healthz and /readyz alone, without TLS, credentials and reasons; "" for none
	Hosts     []string `yaml:"hosts"`      // additional host names of requests if it listens on loopback, such as through a proxy
	WebConfig string   `yaml:"web_config"` // file with TLS, users and client certificates, as Prometheus has it
	Open      bool     `yaml:"open"`       // anyone on the network may read, without authentication
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{Listen: "127.0.0.1:9464"}
}

// Check returns an error that names the key, the value, the bound and the fix. It resolves no address.
func (c Config) Check() error {
	if err := httpguard.CheckAddress(c.Listen, 9464); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if c.Probes != "" {
		if err := httpguard.CheckAddress(c.Probes, 9463); err != nil {
			return fmt.Errorf("probes: %w", err)
		}
	}
	if httpguard.IsOpen(c.Listen) && c.WebConfig == "" && !c.Open {
		return fmt.Errorf("listen: %q is open to the network and asks for no credentials; set web_config, listen on 127.0.0.1, or say open: true", c.Listen)
	}
	return nil
}
