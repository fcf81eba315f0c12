package server

import (
	"errors"
	"net"
	"strconv"
	"time"
)

// Config says where the server listens, and what it calls ready and current.
type Config struct {
	Listen     string        `yaml:"listen"`      // host:port; a host other than loopback shows everything to the network
	LagLimit   uint64        `yaml:"lag_limit"`   // messages behind the stream beyond which the daemon is not ready
	StaleAfter time.Duration `yaml:"stale_after"` // wall-clock age of the last tick at which gauges are withdrawn
	Refresh    time.Duration `yaml:"refresh"`     // how often the page reloads itself; 0 for never
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{Listen: "127.0.0.1:9464", LagLimit: 10_000, StaleAfter: 10 * time.Minute, Refresh: 15 * time.Second}
}

// Validate checks the address; it does not resolve it.
func (c Config) Validate() error {
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return errors.New("must be host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 {
		return errors.New("port must be 0 to 65535 (0 picks a free one)")
	}
	return nil
}
