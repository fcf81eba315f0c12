package listener

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// Load reads the files of a listener's TLS; nil when it has none. The certificate is read anew when its file changes, for
// certificates expire; the clients' CA is not. Errors begin with key, the place of c in the configuration.
func (c TLS) Load(key string, log *zap.Logger) (*tls.Config, error) {
	if c == (TLS{}) {
		return nil, nil
	}
	k := &keyPair{certFile: c.CertFile, keyFile: c.KeyFile, log: log, trouble: seldom()}
	if err := k.read(); err != nil {
		return nil, fmt.Errorf("%s.cert_file is %q, key_file %q: %w; name a certificate and its key in PEM", key, c.CertFile, c.KeyFile, err)
	}
	t := &tls.Config{GetCertificate: k.certificate, MinVersion: tls.VersionTLS12}
	if c.ClientCAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("%s.client_ca_file is %q: %w; name a file that the daemon may read", key, c.ClientCAFile, err)
	}
	t.ClientCAs, t.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s.client_ca_file is %q: no certificate in it; name a file of certificates in PEM", key, c.ClientCAFile)
	}
	return t, nil
}

// keyPair is a certificate and its key, as their files have them.
type keyPair struct {
	certFile, keyFile string
	log               *zap.Logger

	mu       sync.Mutex
	pair     tls.Certificate
	modified time.Time // when the file of pair was
	trouble  rate.Sometimes
}

// certificate implements tls.Config.GetCertificate. One that cannot be read leaves the one before in use.
func (k *keyPair) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(); err != nil {
		k.trouble.Do(func() {
			k.log.Warn("a listener's new certificate cannot be used; it keeps the one before", zap.String("file", k.certFile), zap.Error(err))
		})
	}
	pair := k.pair
	return &pair, nil
}

// read takes over the files if they changed.
func (k *keyPair) read() error {
	info, err := os.Stat(k.certFile)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(k.modified) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		return err // perhaps the key is yet to be written: the next connection tries again
	}
	k.pair, k.modified = pair, info.ModTime()
	return nil
}
