package listener

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"golang.org/x/time/rate"
)

// guard decides which requests are let in. It is safe for concurrent use.
type guard struct {
	token [sha256.Size]byte // of the token
	asks  bool              // for the token
	rate  *rate.Limiter
	slots chan struct{}
}

func newGuard(name string, e *Endpoint) (*guard, error) {
	g := &guard{
		rate:  rate.NewLimiter(rate.Limit(e.RequestsPerS), max(1, int(e.RequestsPerS))),
		slots: make(chan struct{}, e.Concurrent),
	}
	if e.TokenFile == "" {
		return g, nil
	}
	key := "listeners." + name + ".token_file"
	data, err := os.ReadFile(e.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w; name a file that the daemon may read", key, e.TokenFile, err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return nil, fmt.Errorf("%s is %q: the file is empty; write the token into it", key, e.TokenFile)
	}
	g.token, g.asks = sha256.Sum256([]byte(token)), true
	return g, nil
}

// admits says whether the value of an Authorization header holds the token. It takes as long for every wrong one.
func (g *guard) admits(authorization string) bool {
	if !g.asks {
		return true
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// enter takes a slot, unless there is none.
func (g *guard) enter() bool {
	select {
	case g.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g *guard) leave() { <-g.slots }

// serverTLS reads the files of a listener's TLS; nil when it has none.
func serverTLS(name string, c TLS) (*tls.Config, error) {
	if c == (TLS{}) {
		return nil, nil
	}
	key := "listeners." + name + ".tls"
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s.cert_file is %q, key_file %q: %w; name a certificate and its key in PEM", key, c.CertFile, c.KeyFile, err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
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
