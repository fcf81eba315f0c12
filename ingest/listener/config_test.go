package listener

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/internal/tlsconfig"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

func TestConfigCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string // "" is no error
	}{
		"default":        {func(*Config) {}, ""},
		"loopback":       {func(c *Config) { c.HTTP.Listen = "127.0.0.1:4318" }, ""},
		"loopback, v6":   {func(c *Config) { c.HTTP.Listen = "[::1]:4318" }, ""},
		"localhost":      {func(c *Config) { c.HTTP.Listen = "localhost:4318" }, ""},
		"network":        {func(c *Config) { c.HTTP.Listen = "10.0.0.1:4318" }, "http.listen: "},
		"every address":  {func(c *Config) { c.HTTP.Listen = ":4317" }, "http.listen: "},
		"zero address":   {func(c *Config) { c.HTTP.Listen = "0.0.0.0:4317" }, "set http.token_file"},
		"name":           {func(c *Config) { c.HTTP.Listen = "gpu-7:4317" }, "asks for no credentials"},
		"network, token": {func(c *Config) { c.HTTP.Listen, c.HTTP.TokenFile = ":4318", "t" }, ""},
		"network, mTLS": {func(c *Config) {
			c.HTTP.Listen, c.HTTP.TLS = ":4318", tlsconfig.Server{CertFile: "c", KeyFile: "k", ClientCAFile: "ca"}
		}, ""},
		"network, server TLS":  {func(c *Config) { c.HTTP.Listen, c.HTTP.TLS = ":4318", tlsconfig.Server{CertFile: "c", KeyFile: "k"} }, "http.listen: "},
		"no port":              {func(c *Config) { c.HTTP.Listen = "localhost" }, "http.listen: "},
		"bad port":             {func(c *Config) { c.HTTP.Listen = "localhost:http" }, "http.listen: "},
		"certificate alone":    {func(c *Config) { c.HTTP.TLS.CertFile = "c" }, "http.tls.cert_file is "},
		"clients' CA alone":    {func(c *Config) { c.HTTP.TLS.ClientCAFile = "ca" }, "http.tls.client_ca_file is "},
		"no bytes":             {func(c *Config) { c.HTTP.MaxBytes = 0 }, "http.max_bytes: "},
		"too many bytes":       {func(c *Config) { c.HTTP.MaxBytes = 1 << 30 }, "http.max_bytes: "},
		"no requests":          {func(c *Config) { c.HTTP.RequestsPerS = 0 }, "http.requests_per_s: "},
		"none at once":         {func(c *Config) { c.HTTP.Concurrent = 0 }, "http.concurrent: "},
		"negative concurrency": {func(c *Config) { c.HTTP.Concurrent = -1 }, "http.concurrent: "},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			tc.change(&c)
			err := c.Check()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// TestNewErrors: the error names the key.
func TestNewErrors(t *testing.T) {
	taken := must(net.Listen("tcp", "127.0.0.1:0"))
	defer taken.Close()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"listeners.http.listen is ":        func(c *Config) { c.HTTP.Listen = taken.Addr().String() },
		"listeners.http.token_file is ":    func(c *Config) { c.HTTP.TokenFile = "/none" },
		"the file is empty":                func(c *Config) { c.HTTP.TokenFile = empty },
		"listeners.http.tls.cert_file is ": func(c *Config) { c.HTTP.TLS = tlsconfig.Server{CertFile: empty, KeyFile: empty} },
	} {
		c := onLoopback()
		change(&c)
		if _, err := New(c, Deps{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line about %q", err, want)
		}
	}
}

// certificate makes a certificate for localhost. It is signed by parent, or by itself if parent is nil.
func certificate(t *testing.T, parent *tls.Certificate) tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour), IsCA: parent == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	issuer, signer := template, any(key)
	if parent != nil {
		issuer, signer = parent.Leaf, parent.PrivateKey
	}
	der := must(x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer))
	leaf := must(x509.ParseCertificate(der))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), strings.ToLower(strings.ReplaceAll(kind, " ", "-")))
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestClientCertificates: with a client CA, HTTP and gRPC accept only clients whose certificate it has signed.
func TestClientCertificates(t *testing.T) {
	ca, unknown := certificate(t, nil), certificate(t, nil)
	own, client := certificate(t, &ca), certificate(t, &ca)
	key := must(x509.MarshalPKCS8PrivateKey(own.PrivateKey))
	c := onLoopback()
	c.HTTP.TLS = tlsconfig.Server{
		CertFile: writePEM(t, "CERTIFICATE", own.Certificate[0]), KeyFile: writePEM(t, "PRIVATE KEY", key),
		ClientCAFile: writePEM(t, "CERTIFICATE", ca.Certificate[0]),
	}
	m := &memory{}
	l := serve(t, c, m.Store, m.refuse)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	for name, tc := range map[string]struct {
		shown []tls.Certificate
		ok    bool
	}{
		"a signed": {[]tls.Certificate{client}, true}, "an unknown": {[]tls.Certificate{unknown}, false}, "no": {nil, false},
	} {
		config := &tls.Config{RootCAs: roots, Certificates: tc.shown}
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		res, err := (&http.Client{Transport: transport}).Post("https://"+l.Addr()+"/v1/traces", "application/x-protobuf", strings.NewReader(string(protobufOf(traces(1)))))
		if (err == nil) != tc.ok {
			t.Errorf("HTTP with %s certificate: %v", name, err)
		}
		if err == nil {
			res.Body.Close()
			if res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
				t.Errorf("HTTP with %s certificate: %s over %s", name, res.Status, res.Proto)
			}
		}
		transport.CloseIdleConnections()
		want := codes.OK
		if !tc.ok {
			want = codes.Unavailable
		}
		_, err = dial(t, l, grpc.WithTransportCredentials(credentials.NewTLS(config))).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(traces(1)))
		if status.Code(err) != want {
			t.Errorf("gRPC with %s certificate: %v, want %s", name, err, want)
		}
	}
	if n := len(m.requests()); n != 2 {
		t.Errorf("%d requests were stored, want one of each protocol", n)
	}
}

// TestRenewedCertificateIsUsed: a renewed certificate in the same file is used for the next connection. If the new one
// cannot be read, connections are refused until it can.
func TestRenewedCertificateIsUsed(t *testing.T) {
	ca := certificate(t, nil)
	dir := t.TempDir()
	files := tlsconfig.Server{CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key")}
	written := time.Now().Add(-time.Hour)
	write := func(cert, key []byte) {
		t.Helper()
		for path, data := range map[string][]byte{files.CertFile: cert, files.KeyFile: key} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		written = written.Add(time.Minute)
		if err := os.Chtimes(files.CertFile, written, written); err != nil {
			t.Fatal(err)
		}
	}
	renew := func() *x509.Certificate {
		c := certificate(t, &ca)
		key := must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))
		write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
		return c.Leaf
	}
	first := renew()
	c := onLoopback()
	c.HTTP.TLS = files
	l := serve(t, c, new(memory).Store, nil)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	shown := func() *x509.Certificate {
		t.Helper()
		conn := must(tls.Dial("tcp", l.Addr(), &tls.Config{RootCAs: roots}))
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	if got := shown(); !got.Equal(first) {
		t.Errorf("shows certificate %s, want %s", got.SerialNumber, first.SerialNumber)
	}
	second := renew()
	if got := shown(); !got.Equal(second) {
		t.Errorf("shows certificate %s, want the new one, %s", got.SerialNumber, second.SerialNumber)
	}
	write([]byte("broken"), []byte("broken"))
	if conn, err := tls.Dial("tcp", l.Addr(), &tls.Config{RootCAs: roots}); err == nil {
		_ = conn.Close()
		t.Error("a connection is accepted without a certificate")
	}
	third := renew()
	if got := shown(); !got.Equal(third) {
		t.Errorf("shows certificate %s, want the newest one, %s", got.SerialNumber, third.SerialNumber)
	}
}
