package sink

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"os"
	"strings"

	"github.com/prometheus/common/config"
	"github.com/wneessen/go-mail"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/httpguard"
)

// MailConfig is the mail block: reports are sent by SMTP (RFC 5321), the first page as text and HTML, and the whole
// report as an attachment.
type MailConfig struct {
	Host string   `yaml:"host"` // of the mail server; "" sends none
	Port int      `yaml:"port"` // 0 means 587 for starttls, 465 for tls, 25 for none
	TLS  string   `yaml:"tls"`  // starttls, tls, none; "" means starttls
	From string   `yaml:"from"`
	To   []string `yaml:"to"`

	Username     string `yaml:"username"` // "" sends without authentication
	PasswordFile string `yaml:"password_file"`
	CAFile       string `yaml:"ca_file"` // that signed the server's certificate; "" means those of the system
}

// encryptions are the values of tls, with their usual ports.
var encryptions = map[string]struct {
	port   int
	option mail.Option
}{
	startTLS:    {587, mail.WithTLSPolicy(mail.TLSMandatory)},
	implicitTLS: {465, mail.WithSSL()},
	noTLS:       {25, mail.WithTLSPolicy(mail.NoTLS)},
}

const startTLS, implicitTLS, noTLS = "starttls", "tls", "none"

// check is nil for a usable configuration. Errors start with the key.
func (c *MailConfig) check() error {
	switch {
	case c.Host == "" || strings.ContainsAny(c.Host, " /:@") && !strings.Contains(c.Host, "::"):
		return fmt.Errorf("host: %q is no name of a mail server; write such as smtp.example.org, the port beside it", c.Host)
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("port: %d is out of 0…65535; set 0 for the usual one", c.Port)
	case encryptions[c.TLS].port == 0:
		return fmt.Errorf("tls: %q is unknown; set starttls, tls or none", c.TLS)
	case c.TLS == noTLS && c.Username != "" && !httpguard.IsLoopback(c.Host):
		return errors.New("tls: none, with a password for another machine, which anyone on the way could read; set starttls or tls")
	case c.TLS == noTLS && c.CAFile != "":
		return errors.New("ca_file: set without encryption; set tls: starttls, or remove it")
	case (c.Username == "") != (c.PasswordFile == ""):
		return errors.New("password_file: username and password_file go together; set both or neither")
	case len(c.To) == 0 || len(c.To) > 100:
		return fmt.Errorf("to: %d addresses; list 1 to 100", len(c.To))
	}
	if _, err := netmail.ParseAddress(c.From); err != nil {
		return fmt.Errorf("from: %q is no address (%w); write such as Forewarm <forewarm@example.org>", c.From, err)
	}
	for i, to := range c.To {
		if _, err := netmail.ParseAddress(to); err != nil {
			return fmt.Errorf("to[%d]: %q is no address (%w)", i, to, err)
		}
	}
	return nil
}

// mailer sends reports by mail.
type mailer struct {
	cfg  MailConfig
	deps Deps
}

func newMailer(c MailConfig, deps Deps) (*mailer, error) {
	c.TLS = cmp.Or(c.TLS, startTLS)
	c.Port = cmp.Or(c.Port, encryptions[c.TLS].port)
	return &mailer{c, deps}, c.check()
}

// Name is "report/mail".
func (*mailer) Name() string { return "report/mail" }

// Accepts is true for reports.
func (*mailer) Accepts(n alerting.Notice) bool { return n.Report != nil }

// Send sends the mail to the server. Its Message-ID stays the same over retries and restarts, so that a mailbox can
// detect duplicates.
func (s *mailer) Send(ctx context.Context, n alerting.Notice) error {
	pages, err := s.deps.Pages(n.Report)
	if err != nil {
		return err
	}
	m, err := s.message(n.Report, pages)
	if err != nil {
		return alerting.Permanent(fmt.Errorf("%s: %w", s.Name(), err))
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, m)
	if err == nil {
		return nil
	}
	refused, isSend := errors.AsType[*mail.SendError](err)
	err = fmt.Errorf("mail by %s: %w", client.ServerAddr(), err)
	// Only a refusal of the mail itself is final; a wrong password or certificate can be corrected.
	if isSend && refused.ErrorCode()/100 == 5 {
		return alerting.Permanent(err)
	}
	return err
}

func (s *mailer) message(r *alerting.Report, pages Pages) (*mail.Msg, error) {
	m := mail.NewMsg()
	if err := errors.Join(m.From(s.cfg.From), m.To(s.cfg.To...)); err != nil {
		return nil, err
	}
	m.Subject("Forewarm report, " + r.When)
	from, _ := netmail.ParseAddress(s.cfg.From) // check has parsed it
	m.SetMessageIDWithValue(r.ID + from.Address[strings.LastIndexByte(from.Address, '@'):])
	m.SetDateWithValue(r.To)
	m.SetGenHeader(mail.Header("Auto-Submitted"), "auto-generated") // RFC 3834: no out-of-office answers
	m.SetUserAgent("Forewarm")
	m.SetBodyString(mail.TypeTextPlain, string(pages["mail.txt"]))
	m.AddAlternativeString(mail.TypeTextHTML, string(pages["mail.html"]))
	return m, m.AttachReader(r.Name+".html", bytes.NewReader(pages["html"]), mail.WithFileContentType(mail.TypeTextHTML))
}

// client reads the secrets at each call, so that they can change. It connects to nothing.
func (s *mailer) client() (*mail.Client, error) {
	options := []mail.Option{mail.WithPort(s.cfg.Port), mail.WithTimeout(reportPace.timeout), mail.WithoutNoop(), encryptions[s.cfg.TLS].option}
	tlsConfig, err := config.NewTLSConfig(&config.TLSConfig{CAFile: s.cfg.CAFile, ServerName: s.cfg.Host})
	if err != nil {
		return nil, fmt.Errorf("report.mail.ca_file: %w", err)
	}
	options = append(options, mail.WithTLSConfig(tlsConfig))
	if s.cfg.Username != "" {
		password, err := os.ReadFile(s.cfg.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("report.mail.password_file: %w", err)
		}
		// The library refuses PLAIN and LOGIN without encryption to anything but this machine.
		options = append(options, mail.WithUsername(s.cfg.Username), mail.WithPassword(strings.TrimSpace(string(password))),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	return mail.NewClient(s.cfg.Host, options...)
}

// Probe connects to the server, and logs in if a user is configured.
func (s *mailer) Probe(ctx context.Context) (string, error) {
	client, err := s.client()
	if err != nil {
		return "", err
	}
	if err := client.DialWithContext(ctx); err != nil {
		return "", fmt.Errorf("mail by %s: %w; check report.mail.host, port, tls and username", client.ServerAddr(), err)
	}
	detail := client.ServerAddr() + " greets, with tls: " + s.cfg.TLS
	if s.cfg.Username != "" {
		detail += ", and knows " + s.cfg.Username
	}
	return detail, client.Close()
}
