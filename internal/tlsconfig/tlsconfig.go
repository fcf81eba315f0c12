// Package tlsconfig reads the files that the configuration names: of TLS sections, and of secrets.
package tlsconfig

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/config"
	"golang.org/x/time/rate"
)

// Client names the files of a client's TLS; all empty trusts what the system trusts.
type Client struct {
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// Check opens no file. The error begins with a key.
func (c Client) Check() error { return checkPair(c.CertFile, c.KeyFile) }

// Prometheus is the same for its clients.
func (c Client) Prometheus() config.TLSConfig {
	return config.TLSConfig{CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, ServerName: c.ServerName}
}

// Server names the files of a listener's TLS; all empty means no TLS.
type Server struct {
	CertFile     string `yaml:"cert_file"`
	KeyFile      string `yaml:"key_file"`
	ClientCAFile string `yaml:"client_ca_file"` // signs the certificates that clients must show; "" asks for none
}

// Check opens no file. The error begins with a key.
func (s Server) Check() error {
	if s.ClientCAFile != "" && s.CertFile == "" {
		return fmt.Errorf("client_ca_file is %q: it needs TLS; set cert_file and key_file", s.ClientCAFile)
	}
	return checkPair(s.CertFile, s.KeyFile)
}

// Open reads the files; nil means no TLS. The certificate is read again for each connection, because certificates
// expire. If that fails, the last one stays in use and warn is called, on any goroutine, at most each ten seconds. The
// clients' CA is read once. The error begins with a key.
func (s Server) Open(warn func(error)) (*tls.Config, error) {
	if s == (Server{}) {
		return nil, nil
	}
	pair, err := readPair(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(pair)
	seldom := rate.Sometimes{Interval: 10 * time.Second}
	t := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if pair, err := readPair(s.CertFile, s.KeyFile); err == nil {
			last.Store(pair)
		} else {
			seldom.Do(func() { warn(err) })
		}
		return last.Load(), nil
	}}
	if s.ClientCAFile != "" {
		pem, err := os.ReadFile(s.ClientCAFile)
		t.ClientAuth, t.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if err != nil || !t.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("client_ca_file is %q: %w; name a file of certificates in PEM", s.ClientCAFile, cmp.Or(err, errors.New("no certificate in it")))
		}
	}
	return t, nil
}

func checkPair(cert, key string) error {
	if (cert == "") != (key == "") {
		return fmt.Errorf("cert_file is %q: it must be set together with key_file, which is %q", cert, key)
	}
	return nil
}

func readPair(cert, key string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cert_file is %q, key_file %q: %w; name a certificate and its key in PEM", cert, key, err)
	}
	return &pair, nil
}

// ReadSecret reads the one line that the file of a key holds. Errors name the key.
func ReadSecret(key, path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s is %q: %w; name a file that the daemon may read", key, path, err)
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" {
		return "", fmt.Errorf("%s is %q: the file is empty; write the secret into it", key, path)
	}
	return secret, nil
}
