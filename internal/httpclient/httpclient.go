// Package httpclient is shared by the clients of engines, Prometheus and Alertmanager. It has
// authentication, headers and TLS. It starts no goroutine.
package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/common/config"
	"golang.org/x/net/http/httpguts"

	"github.com/forewarm/forewarm/internal/tlsconfig"
	"github.com/forewarm/forewarm/internal/value"
)

// Config says how a client authenticates. Secrets are named by file, and read again for each request.
type Config struct {
	Username        string            `yaml:"username"`
	PasswordFile    string            `yaml:"password_file"`
	BearerTokenFile string            `yaml:"bearer_token_file"`
	Headers         map[string]string `yaml:"headers"` // such as X-Scope-OrgID for a tenant of Mimir
	TLS             tlsconfig.Client  `yaml:"tls"`     // all empty trusts what the system trusts
}

// Check is nil for a usable configuration; else the error names the key, its value and the fix. It opens no file.
func (c *Config) Check(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url is %q: it must be http://host or https://host, with a port and path where there are any", value.Redacted(raw))
	case u.User != nil:
		return errors.New("url contains credentials: set username and password_file")
	case (c.Username == "") != (c.PasswordFile == ""):
		return fmt.Errorf("username is %q: it must be set together with password_file", c.Username)
	case c.Username != "" && c.BearerTokenFile != "":
		return errors.New("bearer_token_file is set: it must not come with username")
	case u.Scheme != "https" && c.TLS != (tlsconfig.Client{}):
		return errors.New("tls is set: it must come with an https url")
	}
	for name := range c.Headers {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("headers: %q is not a valid name of an HTTP header", name)
		}
	}
	if err := c.TLS.Check(); err != nil {
		return fmt.Errorf("tls.%w", err)
	}
	if err := c.prometheus().Validate(); err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	return nil
}

func (c *Config) prometheus() *config.HTTPClientConfig {
	p := &config.HTTPClientConfig{
		EnableHTTP2: true, BearerTokenFile: c.BearerTokenFile,
		TLSConfig:   c.TLS.Prometheus(),
		HTTPHeaders: &config.Headers{Headers: map[string]config.Header{}},
	}
	if c.Username != "" {
		p.BasicAuth = &config.BasicAuth{Username: c.Username, PasswordFile: c.PasswordFile}
	}
	for name, value := range c.Headers {
		p.HTTPHeaders.Headers[name] = config.Header{Values: []string{value}}
	}
	return p
}

// Transport reads the certificates; errors name the file. name identifies it in traces.
func (c *Config) Transport(name string) (http.RoundTripper, error) {
	return config.NewRoundTripperFromConfig(*c.prometheus(), name)
}

// API is Transport to a server that never answers with a web page. Such an answer is an error: a login page or another
// server that answers 200 would seem to take what is sent.
func (c *Config) API(name string) (http.RoundTripper, error) {
	transport, err := c.Transport(name)
	return api{transport}, err
}

type api struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a api) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := a.RoundTripper.RoundTrip(req)
	if err == nil && res.StatusCode/100 == 2 && strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		_ = res.Body.Close()
		return nil, errors.New("a web page answers in place of the API")
	}
	return res, err
}

// NoRedirect follows no redirect: only the configuration says which hosts a client connects to.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
