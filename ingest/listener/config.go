package listener

import (
	"fmt"

	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/internal/tlsconfig"
)

// Config says where telemetry is taken in.
type Config struct {
	HTTP Endpoint `yaml:"http"` // OTLP by HTTP and gRPC, and every other format by HTTP
	// Hosts are the host names that a proxy uses to reach a listener on loopback. Others are refused there.
	Hosts []string `yaml:"hosts"`
}

// Endpoint is the address of the listener, its credentials and its bounds.
type Endpoint struct {
	Listen       string           `yaml:"listen"`     // host:port; "" is off
	TokenFile    string           `yaml:"token_file"` // holds the token that clients send as Authorization: Bearer
	TLS          tlsconfig.Server `yaml:"tls"`
	MaxBytes     int              `yaml:"max_bytes"`      // of a request, as sent and decompressed
	RequestsPerS float64          `yaml:"requests_per_s"` // above it: HTTP 429, or UNAVAILABLE by gRPC
	Concurrent   int              `yaml:"concurrent"`     // requests stored at once; above it: HTTP 503, or UNAVAILABLE by gRPC
}

// DefaultConfig has no listener. Bodies may be large, because webhooks of gateways hold a hundred prompts at a time, so
// few are held at once.
func DefaultConfig() Config {
	return Config{HTTP: Endpoint{MaxBytes: 8 << 20, RequestsPerS: 1000, Concurrent: 32}}
}

// Check returns an error that names the key, the value, the bound and the fix, or nil. It opens no file and resolves no
// address.
func (c *Config) Check() error {
	e := &c.HTTP
	fail := func(key, format string, args ...any) error {
		return fmt.Errorf("http.%s: %w", key, fmt.Errorf(format, args...))
	}
	switch {
	case e.MaxBytes < 1<<10 || e.MaxBytes > 64<<20:
		return fail("max_bytes", "%d is out of 1024…67108864; exporters send a few MB at most", e.MaxBytes)
	case !(e.RequestsPerS > 0 && e.RequestsPerS <= 1e6):
		return fail("requests_per_s", "%g is out of 0…1e6; set how many the busiest second may bring", e.RequestsPerS)
	case e.Concurrent < 1 || e.Concurrent > 10_000:
		return fail("concurrent", "%d is out of 1…10000; each takes memory for its body", e.Concurrent)
	}
	if err := e.TLS.Check(); err != nil {
		return fmt.Errorf("http.tls.%w", err)
	}
	if e.Listen == "" {
		return nil
	}
	if err := httpguard.CheckAddress(e.Listen, 4318); err != nil {
		return fail("listen", "%w", err)
	}
	if httpguard.IsOpen(e.Listen) && e.TokenFile == "" && e.TLS.ClientCAFile == "" {
		return fail("listen", "%q is open to the network and asks for no credentials; "+
			"set http.token_file, or http.tls with a client_ca_file, or listen on 127.0.0.1", e.Listen)
	}
	return nil
}
