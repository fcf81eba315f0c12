package rpc

import (
	"fmt"
	"net"
	"strconv"

	"github.com/forewarm/forewarm/internal/tlsconfig"
)

// Config is one listener.
type Config struct {
	Listen   string           `yaml:"listen"` // host:port; "" is off, and a host other than loopback shows advice to the network
	TLS      tlsconfig.Server `yaml:"tls"`
	MaxBytes int              `yaml:"-"` // of a message that is received; 0 means 64 KiB
}

// Check is nil for a usable configuration; else it names the key, the value, the bound and the mend. It opens no file and
// resolves no address.
func (c Config) Check() error {
	if err := c.TLS.Check(); err != nil {
		return fmt.Errorf("tls.%w", err)
	}
	if c.Listen == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %q is not host:port; write one such as 127.0.0.1:9465", c.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("listen: port %q is out of 0…65535; write one such as 9465, or 0 for a free one", port)
	}
	return nil
}
