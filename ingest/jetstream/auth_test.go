package jetstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsjwt "github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/internal/tlsconfig"
)

// TestAuthentication connects to real servers, each of which requires one kind of credential. Without it they refuse.
func TestAuthentication(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := must(nkeys.CreateUser())
	seed := must(key.Seed())
	public := must(key.PublicKey())
	ca, certificate := selfSigned(t)
	operator, resolver, creds := account(t)

	tests := map[string]struct {
		server func(*server.Options)
		client Config
	}{
		"user and password": {func(o *server.Options) { o.Username, o.Password = "u", "secret" }, Config{User: "u", PasswordFile: file("password", []byte("secret\n"))}},
		"nkey":              {func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }, Config{NkeyFile: file("user.nk", seed)}},
		"credentials":       {func(o *server.Options) { o.TrustedOperators, o.AccountResolver = operator, resolver }, Config{CredsFile: file("user.creds", creds)}},
		"TLS": {func(o *server.Options) {
			o.TLS, o.TLSConfig = true, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		}, Config{TLS: tlsconfig.Client{CAFile: file("ca.pem", ca)}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := &server.Options{Host: "127.0.0.1", Port: -1}
			tt.server(o)
			url := testenv.StartNATSWith(t, o)
			c := tt.client
			c.URL = url
			conn, err := Connect(c, nil)
			if err != nil {
				t.Fatalf("with credentials: %v", err)
			}
			conn.Close()
			for _, c := range []Config{{URL: url}, {URL: url, User: "x", PasswordFile: file("other", []byte("wrong"))}, {URL: strings.Replace(url, "//", "//x:secret@", 1)}} {
				conn, err := Connect(c, nil)
				switch {
				case err == nil:
					conn.Close()
					t.Error("the server accepts a client without its credentials")
				case name == "TLS": // it asks for no user
				case !strings.Contains(err.Error(), "the server refuses the user") || strings.Contains(err.Error(), "secret"):
					t.Error(err)
				}
			}
		})
	}
}

func selfSigned(t *testing.T) (ca []byte, certificate tls.Certificate) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// account makes an operator, an account and a user, and returns the user's credentials.
func account(t *testing.T) ([]*natsjwt.OperatorClaims, server.AccountResolver, []byte) {
	t.Helper()
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		k := must(create())
		p := must(k.PublicKey())
		return k, p
	}
	operator, operatorID := pair(nkeys.CreateOperator)
	acc, accountID := pair(nkeys.CreateAccount)
	user, userID := pair(nkeys.CreateUser)
	encoded := must(natsjwt.NewAccountClaims(accountID).Encode(operator))
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountID, encoded); err != nil {
		t.Fatal(err)
	}
	token := must(natsjwt.NewUserClaims(userID).Encode(acc))
	seed := must(user.Seed())
	creds := must(natsjwt.FormatUserConfig(token, seed))
	return []*natsjwt.OperatorClaims{natsjwt.NewOperatorClaims(operatorID)}, resolver, creds
}
