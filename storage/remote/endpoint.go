package remote

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/common/config"
)

// Endpoint says how a server is reached. Secrets are named by file, and read again for each request.
type Endpoint struct {
	URL             string            `yaml:"url"` // "" for none
	Username        string            `yaml:"username"`
	PasswordFile    string            `yaml:"password_file"`
	BearerTokenFile string            `yaml:"bearer_token_file"`
	Headers         map[string]string `yaml:"headers"` // such as X-Scope-OrgID for a tenant of Mimir
	TLS             TLS               `yaml:"tls"`
}

// TLS names the files of a TLS connection; all empty trusts what the system trusts.
type TLS struct {
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// ownHeaders are set by the protocol or by other keys.
var ownHeaders = []string{
	"Authorization", "Content-Encoding", "Content-Type", "Content-Length", "Host", "User-Agent", "X-Prometheus-Remote-Write-Version",
}

// check is nil for an endpoint that can be tried; else it names the key, its value and the mend. It opens no file.
func (e *Endpoint) check() error {
	if e.URL == "" {
		return nil
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url is %q: it must be http://host or https://host, with a port and path where there are any", redacted(e.URL))
	case u.User != nil:
		return errors.New("url is one with a password: set username and password_file")
	case (e.Username == "") != (e.PasswordFile == ""):
		return fmt.Errorf("username is %q: it must be set together with password_file", e.Username)
	case e.Username != "" && e.BearerTokenFile != "":
		return errors.New("bearer_token_file is set: it must not come with username")
	case u.Scheme != "https" && e.TLS != (TLS{}):
		return errors.New("tls is set: it must come with an https url")
	case (e.TLS.CertFile == "") != (e.TLS.KeyFile == ""):
		return fmt.Errorf("tls.cert_file is %q: it must be set together with tls.key_file", e.TLS.CertFile)
	}
	for name := range e.Headers {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }) {
			return fmt.Errorf("headers is with %q: it must have names of HTTP headers", name)
		}
		if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("headers is with %s: that header is not yours to set", name)
		}
	}
	return nil
}

// redacted is a URL without its password.
func redacted(s string) string {
	if u, err := url.Parse(s); err == nil {
		return u.Redacted()
	}
	return "…"
}

// transport reads the certificates; errors name the file.
func (e *Endpoint) transport(name string) (http.RoundTripper, error) {
	c := config.HTTPClientConfig{
		EnableHTTP2: true, BearerTokenFile: e.BearerTokenFile,
		TLSConfig: config.TLSConfig{CAFile: e.TLS.CAFile, CertFile: e.TLS.CertFile, KeyFile: e.TLS.KeyFile, ServerName: e.TLS.ServerName},
	}
	if e.Username != "" {
		c.BasicAuth = &config.BasicAuth{Username: e.Username, PasswordFile: e.PasswordFile}
	}
	if len(e.Headers) > 0 {
		c.HTTPHeaders = &config.Headers{Headers: map[string]config.Header{}}
		for name, value := range e.Headers {
			c.HTTPHeaders.Headers[name] = config.Header{Values: []string{value}}
		}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return config.NewRoundTripperFromConfig(c, name)
}
