// Package tlsconfig reads the files that the configuration names: of TLS sections, and of secrets.
package tlsconfig

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/common/config"
	"github.com/prometheus/exporter-toolkit/web"
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
// expire. The clients' CA is read once. The error begins with a key.
func (s Server) Open() (*tls.Config, error) {
	if s == (Server{}) {
		return nil, nil
	}
	c := &web.TLSConfig{TLSCertPath: s.CertFile, TLSKeyPath: s.KeyFile, ClientCAs: s.ClientCAFile, MinVersion: tls.VersionTLS12}
	if s.ClientCAFile != "" {
		c.ClientAuth = "RequireAndVerifyClientCert"
	}
	t, err := web.ConfigToTLSConfig(c)
	if err != nil {
		return nil, fmt.Errorf("cert_file is %q, key_file %q, client_ca_file %q: %w; name files in PEM", s.CertFile, s.KeyFile, s.ClientCAFile, err)
	}
	return t, nil
}

func checkPair(cert, key string) error {
	if (cert == "") != (key == "") {
		return fmt.Errorf("cert_file is %q: it must be set together with key_file, which is %q", cert, key)
	}
	return nil
}

// ReadSecret reads the file that a key names, without white space around its content. Errors name the key.
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
