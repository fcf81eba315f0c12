package rpc

import (
	"fmt"

	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/internal/tlsconfig"
)

// Config is one listener.
type Config struct {
	Listen   string           `yaml:"listen"` // host:port; "" means none, and a host other than loopback shows advice to the network
	TLS      tlsconfig.Server `yaml:"tls"`
	MaxBytes int              `yaml:"-"` // of a received message; 0 means 64 KiB
}

// Check is nil for a usable configuration; else it names the key, the value, the bound and what to do. It opens no file
// and resolves no address.
func (c Config) Check() error {
	if err := c.TLS.Check(); err != nil {
		return fmt.Errorf("tls.%w", err)
	}
	if c.Listen == "" {
		return nil
	}
	if err := httpguard.CheckAddress(c.Listen, 9465); err != nil { // the port of an example
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}
