package server

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// Config says where the server listens, and what it calls ready and current.
type Config struct {
	Listen     string        `yaml:"listen"`      // host:port; a host other than loopback shows everything to the network
	Hosts      []string      `yaml:"hosts"`       // names under which it is asked for although it listens on loopback, as by a proxy
	LagLimit   uint64        `yaml:"lag_limit"`   // messages behind the stream beyond which the daemon is not ready
	StaleAfter time.Duration `yaml:"stale_after"` // wall-clock age of the last tick at which gauges are withdrawn
	Refresh    time.Duration `yaml:"refresh"`     // how often the page reloads itself; 0 for never
	WVA        WVA           `yaml:"wva"`
}

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{Listen: "127.0.0.1:9464", LagLimit: 10_000, StaleAfter: 10 * time.Minute, Refresh: 15 * time.Second}
}

// Check is nil for a usable configuration; else it names the key, the value, the bound and the mend. It resolves no
// address.
func (c Config) Check() error {
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %q is not host:port; write one such as 127.0.0.1:9464", c.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("listen: port %q is out of 0…65535; write one such as 9464, or 0 for a free one", port)
	}
	switch {
	case c.LagLimit < 1:
		return fmt.Errorf("lag_limit: %d is below 1; set how many messages may wait, such as 10000", c.LagLimit)
	case c.StaleAfter < 2*time.Minute || c.StaleAfter > 24*time.Hour:
		return fmt.Errorf("stale_after: %s is out of 2m…24h; set a few times the spacing of decisions", c.StaleAfter)
	case c.Refresh < 0 || c.Refresh > time.Hour:
		return fmt.Errorf("refresh: %s is out of 0s…1h; set 0s to never reload the page", c.Refresh)
	}
	return nil
}
