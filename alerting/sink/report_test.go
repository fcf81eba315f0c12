package sink

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/forewarm/forewarm/alerting"
)

// weekly is a notice of a report. Its pages are testPages.
func weekly() alerting.Notice {
	to := time.Date(2026, 3, 9, 7, 0, 0, 0, time.UTC)
	return alerting.Notice{Report: &alerting.Report{ID: "report-2026-03-09T0700Z-1f", Name: "report-2026-03-09T0700Z", From: to.AddDate(0, 0, -7), To: to,
		When:    "2 Mar 2026 07:00 to 9 Mar 2026 07:00 UTC",
		Summary: []string{"Two pools had telemetry.", "Nothing saturated."}}}
}

var testPages = Pages{
	"md": []byte("# Report\n"), "json": []byte(`{"pools":[]}`), "html": []byte("<!doctype html><p>" + strings.Repeat("größer, ", 20_000)),
	"mail.txt": []byte("Nothing saturated.\n"), "mail.html": []byte("<p>Nothing saturated.</p>"),
}

func pagesFunc(pages Pages) func(*alerting.Report) (Pages, error) {
	return func(*alerting.Report) (Pages, error) { return pages, nil }
}

// mailServer is a real SMTP server in this process, with user forewarm and password sesame. If reply is set, it refuses
// mails with it.
type mailServer struct {
	addr     string
	ca       string // file with its certificate
	password string // file with the password
	mails    chan []byte
	reply    error

	authenticated, encrypted bool
	recipients               []string
}

// startMail starts a mail server. The argument secure is starttls, tls or none.
func startMail(t *testing.T, secure string) *mailServer {
	t.Helper()
	cert, ca := certificate(t)
	m := &mailServer{ca: ca, password: keyFile(t, "sesame"), mails: make(chan []byte, 8)}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		m.authenticated, m.recipients = false, nil
		return &mailSession{m, c}, nil
	}))
	server.Domain, server.AllowInsecureAuth, server.ErrorLog = "mail.example.org", true, quiet{}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	m.addr = listener.Addr().String()
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	switch secure {
	case startTLS:
		server.TLSConfig = config
	case implicitTLS:
		listener = tls.NewListener(listener, config)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close
	}()
	t.Cleanup(func() {
		_ = server.Close()
		_ = listener.Close() // server.Close does not close it before Serve has begun
		<-done
	})
	return m
}

// config is the configuration of a client of the server.
func (m *mailServer) config(secure string) MailConfig {
	_, port, _ := net.SplitHostPort(m.addr)
	c := MailConfig{Host: "localhost", TLS: secure, CAFile: m.ca, From: "Forewarm <forewarm@example.org>", To: []string{"ops@example.org", "Ada <ada@example.org>"},
		Username: "forewarm", PasswordFile: m.password}
	c.Port, _ = net.LookupPort("tcp", port)
	if secure == noTLS {
		c.CAFile = ""
	}
	return c
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

type mailSession struct {
	*mailServer
	conn *smtp.Conn
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }
func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "forewarm" || password != "sesame" {
			return smtp.ErrAuthFailed
		}
		_, s.encrypted = s.conn.TLSConnectionState()
		s.authenticated = true
		return nil
	}), nil
}
func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }
func (s *mailSession) Mail(string, *smtp.MailOptions) error {
	if !s.authenticated {
		return smtp.ErrAuthRequired
	}
	return s.reply
}
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.recipients = append(s.recipients, to)
	return nil
}
func (s *mailSession) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	s.mails <- b
	return err
}

// certificate makes a certificate for localhost, and a CA file with it.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, path
}

func TestMail(t *testing.T) {
	for _, secure := range []string{startTLS, implicitTLS, noTLS} {
		t.Run(secure, func(t *testing.T) {
			server := startMail(t, secure)
			m := must(newMailer(server.config(secure), Deps{Pages: pagesFunc(testPages)}))
			if detail, err := m.Probe(t.Context()); err != nil || !strings.Contains(detail, "knows forewarm") {
				t.Fatalf("probe: %q, %v", detail, err)
			}
			ids := map[string]bool{}
			for range 2 { // the second is a retry
				if err := m.Send(t.Context(), weekly()); err != nil {
					t.Fatal(err)
				}
				ids[readMail(t, <-server.mails)] = true
			}
			if len(ids) != 1 {
				t.Errorf("the retry has a different Message-ID: %v", ids)
			}
			if diff := cmp.Diff([]string{"ops@example.org", "ada@example.org"}, server.recipients); diff != "" || server.encrypted != (secure == startTLS || secure == implicitTLS) {
				t.Errorf("encrypted: %v; recipients %s", server.encrypted, diff)
			}
		})
	}
}

// readMail parses a mail, checks its headers and parts, and returns its Message-ID.
func readMail(t *testing.T, raw []byte) (id string) {
	t.Helper()
	m := must(netmail.ReadMessage(bytes.NewReader(raw)))
	if got := m.Header.Get("Subject"); got != "Forewarm report, 2 Mar 2026 07:00 to 9 Mar 2026 07:00 UTC" {
		t.Errorf("subject %q", got)
	}
	if got := m.Header.Get("Auto-Submitted"); got != "auto-generated" {
		t.Errorf("auto-submitted %q", got)
	}
	got := map[string]string{}
	var walk func(contentType string, r io.Reader)
	walk = func(contentType string, r io.Reader) {
		kind, params, err := mime.ParseMediaType(contentType)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(kind, "multipart/") {
			body := must(io.ReadAll(r))
			got[kind] += strings.ReplaceAll(string(body), "\r\n", "\n")
			return
		}
		got["kinds"] += kind + " "
		parts := multipart.NewReader(r, params["boundary"])
		for {
			p, err := parts.NextRawPart()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.FileName() != "" { // the page, as base64
				got["file"] = p.FileName()
				continue
			}
			body := io.Reader(p)
			if p.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
				body = quotedprintable.NewReader(p)
			}
			walk(p.Header.Get("Content-Type"), body)
		}
	}
	walk(m.Header.Get("Content-Type"), m.Body)
	want := map[string]string{"kinds": "multipart/mixed multipart/alternative ", "file": "report-2026-03-09T0700Z.html",
		"text/plain": string(testPages["mail.txt"]), "text/html": string(testPages["mail.html"])}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	return m.Header.Get("Message-ID")
}

// TestMailRefusals: if the server refuses the mail itself, it is not sent again. After other failures it is. The
// password is not sent without encryption.
func TestMailRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		secure    string
		change    func(*mailServer, *MailConfig)
		permanent bool
		want      string
	}{
		"unknown sender":      {startTLS, func(s *mailServer, _ *MailConfig) { s.reply = &smtp.SMTPError{Code: 550, Message: "who are you"} }, true, "who are you"},
		"greylisting":         {startTLS, func(s *mailServer, _ *MailConfig) { s.reply = &smtp.SMTPError{Code: 451, Message: "later"} }, false, "later"},
		"wrong password":      {startTLS, func(s *mailServer, c *MailConfig) { c.PasswordFile = s.ca }, false, "535"},
		"no password":         {startTLS, func(_ *mailServer, c *MailConfig) { c.PasswordFile = "unset" }, false, "report.mail.password_file: open unset"},
		"unknown certificate": {startTLS, func(_ *mailServer, c *MailConfig) { c.CAFile = "" }, false, "certificate"},
		"no STARTTLS":         {noTLS, func(_ *mailServer, c *MailConfig) { c.TLS, c.CAFile = startTLS, "" }, false, "STARTTLS"},
		"closed port":         {startTLS, func(_ *mailServer, c *MailConfig) { c.Port = 1 }, false, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			server := startMail(t, c.secure)
			config := server.config(c.secure)
			c.change(server, &config)
			m := must(newMailer(config, Deps{Pages: pagesFunc(testPages)}))
			err := m.Send(t.Context(), weekly())
			if answer, _ := errors.AsType[alerting.SendError](err); err == nil || answer.Permanent != c.permanent || !strings.Contains(err.Error(), c.want) {
				t.Errorf("permanent %v: %v", answer.Permanent, err)
			}
			if len(server.mails) > 0 || strings.Contains(err.Error(), "sesame") {
				t.Error("the server accepted a mail, or the error contains the password")
			}
		})
	}
}

func TestMailConfig(t *testing.T) {
	valid := MailConfig{Host: "smtp.example.org", From: "a@example.org", To: []string{"b@example.org"}, Username: "u", PasswordFile: "f"}
	for want, change := range map[string]func(*MailConfig){
		"report.mail.host: ":          func(c *MailConfig) { c.Host = "smtp://x" },
		"report.mail.port: ":          func(c *MailConfig) { c.Port = 70000 },
		"report.mail.tls: \"ssl\"":    func(c *MailConfig) { c.TLS = "ssl" },
		"report.mail.tls: none, with": func(c *MailConfig) { c.TLS = noTLS },
		"report.mail.ca_file: ":       func(c *MailConfig) { c.TLS, c.Username, c.PasswordFile, c.CAFile = noTLS, "", "", "f" },
		"report.mail.password_file: ": func(c *MailConfig) { c.Username = "" },
		"report.mail.to: ":            func(c *MailConfig) { c.To = nil },
		"report.mail.to[0]: ":         func(c *MailConfig) { c.To[0] = "b\r\nBcc: c@example.org" },
		"report.mail.from: ":          func(c *MailConfig) { c.From = "nobody" },
	} {
		c := valid
		c.To = []string{"b@example.org"}
		change(&c)
		if _, err := OpenReports(ReportConfig{Mail: c}, Deps{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
	}
	if _, err := OpenReports(ReportConfig{Mail: valid}, Deps{}); err != nil {
		t.Error(err)
	}
}

func TestReportWebhook(t *testing.T) {
	var bodies [][]byte
	server := consumer(t, testKey, func(id string, body []byte) {
		if id != "report-2026-03-09T0700Z-1f" {
			t.Errorf("id %q", id)
		}
		bodies = append(bodies, body)
	})
	large := Pages{"json": append(append([]byte(`"`), bytes.Repeat([]byte("x"), maxEmbedded)...), '"')}
	for _, pages := range []Pages{testPages, large} {
		sinks, err := Open(Config{Webhooks: []WebhookConfig{{Name: "ops", Target: Target{URL: server.URL}, SecretFile: keyFile(t, testKey), Send: []string{"reports"}}}}, Deps{Pages: pagesFunc(pages)})
		if err != nil {
			t.Fatal(err)
		}
		s := sinks[0].(*Webhook)
		if !s.Accepts(weekly()) || s.Accepts(decision("a", 1)) {
			t.Error("a webhook with send: [reports] must accept reports, and nothing else")
		}
		if err := s.Send(t.Context(), weekly()); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{`{"pools":[]}`, "null"} {
		var event struct {
			ID, Type string
			Data     struct {
				Summary []string
				From    time.Time
				Report  json.RawMessage
			}
		}
		if err := json.Unmarshal(bodies[i], &event); err != nil {
			t.Fatal(err)
		}
		if event.Type != "forewarm.report.v1" || len(event.Data.Summary) != 2 || event.Data.From.IsZero() || string(event.Data.Report) != want {
			t.Errorf("%s", bodies[i][:200])
		}
	}
	if must(NewWebhook(WebhookConfig{Name: "ops", Target: Target{URL: "https://a"}, SecretFile: "k"})).Accepts(weekly()) {
		t.Error("a webhook without send accepts reports")
	}
	body, err := slackMessage(weekly())
	if err != nil || !strings.Contains(string(body), "Report, 2 Mar 2026 07:00 to 9 Mar 2026 07:00 UTC") || !strings.Contains(string(body), "Nothing saturated.") {
		t.Errorf("%s (%v)", body, err)
	}
}

// TestReportsDoNotDelayAlerts: a full disk and a mail server that hangs do not delay the webhook of an alert.
func TestReportsDoNotDelayAlerts(t *testing.T) {
	hanging := must(net.Listen("tcp", "127.0.0.1:0"))
	defer hanging.Close()
	alerts := make(chan struct{}, 1)
	hook := consumer(t, testKey, func(string, []byte) { alerts <- struct{}{} })
	full := errors.New("no space left on device")
	c := ReportConfig{Dir: "reports", Mail: (&mailServer{addr: hanging.Addr().String(), password: keyFile(t, "sesame")}).config(noTLS)}
	sinks := must(OpenReports(c, Deps{Pages: pagesFunc(testPages), WriteFile: func(string, []byte) error { return full }}))
	failed := make(chan Failure, 8)
	log := newMemoryLog()
	d := NewDispatcher(append(sinks, must(NewWebhook(WebhookConfig{Name: "ops", Target: Target{URL: hook.URL}, SecretFile: keyFile(t, testKey)}))), log.open,
		func(f Failure) { failed <- f }, noop.Tracer{})
	stop := dispatch(t, d)
	log.enqueue(weekly(), alert("llama", false))
	<-alerts
	if f := <-failed; f.Sink != "report/folder" || f.Final || !errors.Is(f.Err, full) {
		t.Errorf("%+v", f)
	}
	_ = stop() // an error about the reports that were not sent
}
