package rpc

import (
	"fmt"
	"net"
	"strconv"

	"github.com/forewarm/forewarm/ingest/listener"
)

// Config is one listener.
type Config struct {
	Listen   string       `yaml:"listen"` // host:port; "" is off, and a host other than loopback shows advice to the network
	TLS      listener.TLS `yaml:"tls"`
	MaxCalls int          `yaml:"max_calls"` // at once, streams included; further ones are told to come back later
	MaxBytes int          `yaml:"max_bytes"` // of a message that is received
}

// DefaultConfig is a listener that is off.
func DefaultConfig() Config { return Config{MaxCalls: 256, MaxBytes: 64 << 10} }

// Check is nil for a usable configuration; else it names the key, the value, the bound and the mend. It opens no file and
// resolves no address.
func (c Config) Check() error {
	switch {
	case c.MaxCalls < 1 || c.MaxCalls > 10_000:
		return fmt.Errorf("max_calls: %d is out of 1…10000; each trigger that is pushed to takes two", c.MaxCalls)
	case c.MaxBytes < 1<<10 || c.MaxBytes > 16<<20:
		return fmt.Errorf("max_bytes: %d is out of 1024…16777216; what is asked takes a few hundred", c.MaxBytes)
	case (c.TLS.CertFile == "") != (c.TLS.KeyFile == ""):
		return fmt.Errorf("tls.cert_file: %q is set, or not, unlike tls.key_file: set both, or neither", c.TLS.CertFile)
	case c.TLS.ClientCAFile != "" && c.TLS.CertFile == "":
		return fmt.Errorf("tls.client_ca_file: %q needs TLS; set tls.cert_file and tls.key_file", c.TLS.ClientCAFile)
	case c.Listen == "":
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
