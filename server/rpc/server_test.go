package rpc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/forewarm/forewarm/internal/tlsconfig"
	pb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// service is a service with a unary call and a stream.
type service struct {
	pb.UnimplementedExternalScalerServer
}

func (service) IsActive(context.Context, *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	return &pb.IsActiveResponse{Result: true}, nil
}

func (service) StreamIsActive(_ *pb.ScaledObjectRef, s grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	if err := s.Send(&pb.IsActiveResponse{Result: true}); err != nil {
		return err
	}
	<-s.Context().Done()
	return status.Error(codes.Unavailable, "stopped")
}

// counts has the number of ended calls by method and code.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(method string, code codes.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[method+" "+code.String()]++
}

func run(t *testing.T, c Config, calls int64) (address string, n *counts, stop func()) {
	t.Helper()
	n = &counts{n: map[string]int{}}
	c.Listen = "127.0.0.1:0"
	s := must(Open("keda", c, n.add))
	s.slots = semaphore.NewWeighted(calls)
	pb.RegisterExternalScalerServer(s, service{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s.Addr().String(), n, stop
}

func dial(t *testing.T, address string, secure credentials.TransportCredentials) pb.ExternalScalerClient {
	t.Helper()
	conn := must(grpc.NewClient(address, grpc.WithTransportCredentials(secure)))
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewExternalScalerClient(conn)
}

func TestBounds(t *testing.T) {
	c := Config{MaxBytes: 1 << 10}
	address, n, stop := run(t, c, 1)
	client := dial(t, address, insecure.NewCredentials())
	long := &pb.ScaledObjectRef{Name: strings.Repeat("x", 2<<10)}
	if _, err := client.IsActive(t.Context(), long); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message that is too long: %v", err)
	}
	stream := must(client.StreamIsActive(t.Context(), &pb.ScaledObjectRef{}))
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	other := dial(t, address, insecure.NewCredentials()) // the bound is for all connections together
	if _, err := other.IsActive(t.Context(), &pb.ScaledObjectRef{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second call during a stream: %v", err)
	}
	stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream after the server stopped: %v", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.n["IsActive ResourceExhausted"] == 0 || n.n["StreamIsActive Unavailable"] != 1 {
		t.Errorf("counted %v", n.n)
	}
}

// TestCodes: calls are counted by the code that the client gets.
func TestCodes(t *testing.T) {
	n := &counts{n: map[string]int{}}
	s := &Server{slots: semaphore.NewWeighted(1), count: n.add}
	for _, err := range []error{nil, context.Canceled, context.DeadlineExceeded, status.Error(codes.NotFound, "x"), net.ErrClosed} {
		_ = s.admit("/keda/Call", func() error { return err })
	}
	for _, code := range []string{"OK", "Canceled", "DeadlineExceeded", "NotFound", "Unknown"} {
		if n.n["Call "+code] != 1 {
			t.Errorf("counted %v, want one %s", n.n, code)
		}
	}
}

func TestTLS(t *testing.T) {
	ca, unknown := certificate(t, nil), certificate(t, nil)
	own, client := certificate(t, &ca), certificate(t, &ca)
	key := must(x509.MarshalPKCS8PrivateKey(own.PrivateKey))
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	c := Config{}
	c.TLS = tlsconfig.Server{
		CertFile: writePEM(t, "CERTIFICATE", own.Certificate[0]), KeyFile: writePEM(t, "PRIVATE KEY", key),
		ClientCAFile: writePEM(t, "CERTIFICATE", ca.Certificate[0]),
	}
	address, _, _ := run(t, c, maxCalls)
	for name, tt := range map[string]struct {
		secure credentials.TransportCredentials
		ok     bool
	}{
		"with a certificate":               {credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}}), true},
		"without a certificate":            {credentials.NewTLS(&tls.Config{RootCAs: roots}), false},
		"that does not know the CA":        {credentials.NewTLS(&tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{client}}), false},
		"with a certificate of another CA": {credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{unknown}}), false},
		"without TLS":                      {insecure.NewCredentials(), false},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := dial(t, address, tt.secure).IsActive(ctx, &pb.ScaledObjectRef{})
		cancel()
		if (err == nil) != tt.ok || err != nil && status.Code(err) != codes.Unavailable {
			t.Errorf("a client %s: %v", name, err)
		}
	}
}

func TestOpenFails(t *testing.T) {
	taken := must(net.Listen("tcp", "127.0.0.1:0"))
	defer taken.Close()
	for want, change := range map[string]func(*Config){
		"keda.listen = 127.0.0.1:":             func(c *Config) { c.Listen = taken.Addr().String() },
		`keda.tls.cert_file is "/nowhere.pem"`: func(c *Config) { c.TLS = tlsconfig.Server{CertFile: "/nowhere.pem", KeyFile: "/nowhere.key"} },
	} {
		c := Config{}
		c.Listen = "127.0.0.1:0"
		change(&c)
		if _, err := Open("keda", c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := (Config{}).Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"listen: ":                    func(c *Config) { c.Listen = "9465" },
		`listen: "127.0.0.1:keda" is`: func(c *Config) { c.Listen = "127.0.0.1:keda" },
		"tls.cert_file is ":           func(c *Config) { c.TLS.KeyFile = "k" },
		"tls.client_ca_file is ":      func(c *Config) { c.TLS.ClientCAFile = "ca" },
	} {
		c := Config{}
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// certificate makes a certificate for 127.0.0.1. It is signed by parent, or by itself if parent is nil.
func certificate(t *testing.T, parent *tls.Certificate) tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour), IsCA: parent == nil, BasicConstraintsValid: true,
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
	path := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
