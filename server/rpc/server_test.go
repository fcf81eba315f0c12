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

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/forewarm/forewarm/internal/tlsconfig"
	pb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// service is any service with a call and a stream.
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

// counts are the calls that ended, by method and code.
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
	s, err := Open("keda", c, n.add, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
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
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(secure))
	if err != nil {
		t.Fatal(err)
	}
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
	stream, err := client.StreamIsActive(t.Context(), &pb.ScaledObjectRef{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	other := dial(t, address, insecure.NewCredentials()) // the bound holds over all connections
	if _, err := other.IsActive(t.Context(), &pb.ScaledObjectRef{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second call beside a stream: %v", err)
	}
	stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of a server that stopped: %v", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.n["IsActive ResourceExhausted"] == 0 || n.n["StreamIsActive Unavailable"] != 1 {
		t.Errorf("counted %v", n.n)
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, serverPair, clientPair := certificates(t, dir)
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	c := Config{}
	c.TLS = tlsconfig.Server{CertFile: filepath.Join(dir, "server.pem"), KeyFile: filepath.Join(dir, "server.key"), ClientCAFile: filepath.Join(dir, "ca.pem")}
	address, _, _ := run(t, c, maxCalls)
	for name, tt := range map[string]struct {
		secure credentials.TransportCredentials
		ok     bool
	}{
		"with a certificate":    {credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{clientPair}, MinVersion: tls.VersionTLS12}), true},
		"without a certificate": {credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), false},
		"that trusts others":    {credentials.NewTLS(&tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{clientPair}, MinVersion: tls.VersionTLS12}), false},
		"with another's":        {credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{selfSigned(t, serverPair)}, MinVersion: tls.VersionTLS12}), false},
		"in clear":              {insecure.NewCredentials(), false},
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
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, change := range map[string]func(*Config){
		"keda.listen = 127.0.0.1:":             func(c *Config) { c.Listen = taken.Addr().String() },
		`keda.tls.cert_file is "/nowhere.pem"`: func(c *Config) { c.TLS = tlsconfig.Server{CertFile: "/nowhere.pem", KeyFile: "/nowhere.key"} },
	} {
		c := Config{}
		c.Listen = "127.0.0.1:0"
		change(&c)
		if _, err := Open("keda", c, nil, zap.NewNop()); err == nil || !strings.Contains(err.Error(), want) {
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

// certificates writes a CA, and a server's and a client's certificate that it signed, to dir.
func certificates(t *testing.T, dir string) (ca *x509.Certificate, serverPair, clientPair tls.Certificate) {
	t.Helper()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	rootKey := newKey(t)
	ca = sign(t, root, root, rootKey, rootKey)
	write(t, filepath.Join(dir, "ca.pem"), "CERTIFICATE", ca.Raw)
	pair := func(name string, serial int64, usage x509.ExtKeyUsage) tls.Certificate {
		key := newKey(t)
		leaf := sign(t, &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{usage}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}, ca, key, rootKey)
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name+".pem"), "CERTIFICATE", leaf.Raw)
		write(t, filepath.Join(dir, name+".key"), "EC PRIVATE KEY", der)
		return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
	}
	return ca, pair("server", 2, x509.ExtKeyUsageServerAuth), pair("client", 3, x509.ExtKeyUsageClientAuth)
}

// selfSigned is a client's certificate that nobody trusts.
func selfSigned(t *testing.T, like tls.Certificate) tls.Certificate {
	t.Helper()
	key := like.PrivateKey.(*ecdsa.PrivateKey)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(9), Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	return tls.Certificate{Certificate: [][]byte{sign(t, c, c, key, key).Raw}, PrivateKey: key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, c, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func write(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
