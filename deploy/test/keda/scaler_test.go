// Package keda tests Forewarm's external scaler with KEDA's client, and checks Forewarm's manifests against the schemas
// of KEDA and Kubernetes.
package keda

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

const patience = time.Minute

// TestExternalScaler runs the daemon as a process over two hours of event time and asks it as KEDA does.
func TestExternalScaler(t *testing.T) {
	d := startDaemon(t)
	client := pb.NewExternalScalerClient(d.conn)
	ref := func(metadata ...string) *pb.ScaledObjectRef {
		r := &pb.ScaledObjectRef{Name: "chat", Namespace: "llm", ScalerMetadata: map[string]string{"scalerAddress": d.keda, "enableTLS": "true", "pool": "chat"}}
		for i := 0; i < len(metadata); i += 2 {
			r.ScalerMetadata[metadata[i]] = metadata[i+1]
		}
		return r
	}
	obeyed := ref()

	// Before there is advice there is a specification, and no number.
	spec, err := client.GetMetricSpec(t.Context(), obeyed)
	if err != nil || len(spec.MetricSpecs) != 1 {
		t.Fatalf("specification: %v, %v", spec, err)
	}
	metric, target := spec.MetricSpecs[0].MetricName, spec.MetricSpecs[0].TargetSizeFloat
	get := func(r *pb.ScaledObjectRef) (float64, error) {
		res, err := client.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: r, MetricName: metric})
		if err != nil || len(res.MetricValues) != 1 || res.MetricValues[0].MetricName != metric {
			return 0, err
		}
		return res.MetricValues[0].MetricValueFloat, nil
	}
	if n, err := get(obeyed); err == nil {
		t.Errorf("before there is telemetry: %g replicas", n)
	}

	// In advisory mode there is no number. The error says what it would be.
	d.replay(t, 0, 2*time.Hour)
	if n, err := get(obeyed); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "would ask for ") {
		t.Errorf("advisory: %g, %v", n, err)
	}
	if active, err := client.IsActive(t.Context(), obeyed); status.Code(err) != codes.Unavailable {
		t.Errorf("advisory: active %v, %v", active, err)
	}

	// One pool becomes active by a reload.
	d.activate(t)
	d.replay(t, 2*time.Hour, 2*time.Hour+10*time.Minute)
	desired := d.desired(t)
	if n, err := get(obeyed); err != nil || n/target != float64(desired) || n < 2 {
		t.Errorf("%g at a target of %g (%v), the decision is %d", n, target, err, desired)
	}
	if active, err := client.IsActive(t.Context(), obeyed); err != nil || !active.Result {
		t.Errorf("active: %v, %v", active, err)
	}
	isActive, err := client.StreamIsActive(t.Context(), obeyed)
	if err != nil {
		t.Fatal(err)
	}
	if active, err := isActive.Recv(); err != nil || !active.Result {
		t.Errorf("active, as pushed: %v, %v", active, err)
	}
	specs, err := client.StreamMetricSpec(t.Context(), obeyed)
	if err != nil {
		t.Fatal(err)
	}
	if pushed, err := specs.Recv(); err != nil || len(pushed.MetricSpecs) != 1 || pushed.MetricSpecs[0].MetricName != metric || pushed.MetricSpecs[0].TargetSizeFloat != target {
		t.Errorf("specification, as pushed: %v, %v", pushed, err)
	}

	if n, err := get(ref("pool", "batch")); err == nil {
		t.Errorf("a pool without telemetry: %g", n)
	}
}

// daemon is a Forewarm process, and a connection to its scaler with a client certificate.
type daemon struct {
	program, config, nats, http, keda string
	process                           *os.Process
	conn                              *grpc.ClientConn
}

func startDaemon(t *testing.T) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{program: filepath.Join(dir, "forewarm"), nats: freeAddress(t), http: freeAddress(t), keda: freeAddress(t)}
	build := exec.Command("go", "build", "-o", d.program, "./cmd/forewarm")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	secure := certificates(t, dir)
	d.config = filepath.Join(dir, "forewarm.yaml")
	if err := os.WriteFile(d.config, fmt.Appendf(nil, `
clock: event
storage: {dir: %[1]s/data}
server: {listen: %[2]q}
nats: {embedded: {listen: %[3]q}}
keda: {listen: %[4]q, tls: {cert_file: %[1]s/server.pem, key_file: %[1]s/server.key, client_ca_file: %[1]s/ca.pem}}
pools: [{name: chat, decode_tokens_per_s: 400, replicas: {min: 1, max: 9}}, {name: batch, decode_tokens_per_s: 400, replicas: {max: 9}}]
`, dir, d.http, d.nats, d.keda), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	serve := exec.Command(d.program, "serve", "-config", d.config)
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	d.process = serve.Process
	t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil || t.Failed() {
			t.Errorf("serve: %v\n%s", err, log.String())
		}
	})
	conn, err := grpc.NewClient(d.keda, grpc.WithTransportCredentials(credentials.NewTLS(secure)), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	d.conn = conn
	await(t, "the daemon to be alive", func() bool {
		_, err := d.fetch("/healthz")
		return err == nil
	})
	return d
}

// activate sets the pool chat to active mode in the configuration, and makes the daemon reload it.
func (d *daemon) activate(t *testing.T) {
	t.Helper()
	loaded := func() string {
		body, _ := d.fetch("/metrics")
		return string(regexp.MustCompile(`(?m)^forewarm_config_last_reload_success_timestamp_seconds.*$`).Find(body))
	}
	before := loaded()
	old, err := os.ReadFile(d.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.config, bytes.Replace(old, []byte("name: chat,"), []byte("name: chat, mode: active,"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, "the configuration to be loaded", func() bool {
		now := loaded()
		return now != "" && now != before
	})
}

// traceStart is the time of t_s = 0 in a replayed trace, by default.
var traceStart = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// replay publishes a part of a load that needs several replicas, and waits until it is counted.
func (d *daemon) replay(t *testing.T, from, to time.Duration) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace.csv")
	rows := bytes.NewBufferString("t_s,class,prompt_tokens,cached_tokens,output_tokens\n")
	for at := int(from.Seconds()); at < int(to.Seconds()); at++ {
		fmt.Fprintf(rows, "%d,talk,500,0,%d\n", at, 900+at%200)
	}
	if err := os.WriteFile(trace, rows.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(d.program, "replay", "-nats", "nats://"+d.nats, "-pool", "chat", "-batch", "100", trace).CombinedOutput(); err != nil {
		t.Fatalf("replay: %v\n%s", err, out)
	}
	nearlyAll := traceStart.Add(to - 10*time.Minute) // a lag of 0 may be that from before the replay
	await(t, "the telemetry to be counted", func() bool {
		var status struct {
			Lag  *int `json:"stream_lag_messages"`
			Tick time.Time
		}
		body, err := d.fetch("/api/v1/status")
		return err == nil && json.Unmarshal(body, &status) == nil && status.Lag != nil && *status.Lag == 0 && status.Tick.After(nearlyAll)
	})
}

// desired is the number of replicas in the newest decision for the pool.
func (d *daemon) desired(t *testing.T) int {
	t.Helper()
	body, err := d.fetch("/api/v1/pools/chat/desired")
	var answer struct {
		Desired int `json:"desired_replicas"`
	}
	if err != nil || json.Unmarshal(body, &answer) != nil || answer.Desired == 0 {
		t.Fatalf("%v: %s", err, body)
	}
	return answer.Desired
}

func (d *daemon) fetch(path string) ([]byte, error) {
	res, err := http.Get("http://" + d.http + path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return body, err
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", patience, what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ports are tried in this order, each once. They are below those that the system gives to clients.
var ports = mathrand.Perm(20_000)

// freeAddress returns a loopback address on which nothing listens, a different one each time.
func freeAddress(t *testing.T) string {
	t.Helper()
	for len(ports) > 0 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+ports[0])
		ports = ports[1:]
		if l, err := net.Listen("tcp", address); err == nil {
			defer l.Close()
			return address
		}
	}
	t.Fatal("no free port was found")
	return ""
}

// certificates writes a CA and the server's certificate to dir, and returns the TLS configuration of the client.
func certificates(t *testing.T, dir string) *tls.Config {
	t.Helper()
	issue := func(serial int64, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if parent == nil {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
			parent, signer = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	save := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ca, caKey := issue(1, nil, nil)
	server, serverKey := issue(2, ca, caKey)
	client, clientKey := issue(3, ca, caKey)
	der, err := x509.MarshalECPrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	save("ca.pem", "CERTIFICATE", ca.Raw)
	save("server.pem", "CERTIFICATE", server.Raw)
	save("server.key", "EC PRIVATE KEY", der)
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{{Certificate: [][]byte{client.Raw}, PrivateKey: clientKey}}, MinVersion: tls.VersionTLS12}
}
