package sink

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/httpguard"
	"github.com/forewarm/forewarm/internal/tlsconfig"
)

// WebhookConfig is one of webhooks.
type WebhookConfig struct {
	Name      string   `yaml:"name"`       // in logs, metrics and errors, because the URL may be a secret
	URL       string   `yaml:"url"`        // https, or http to this machine
	URLFile   string   `yaml:"url_file"`   // instead of url, if it is a secret; read at each attempt
	AllowHTTP bool     `yaml:"allow_http"` // to other machines, although it is not encrypted
	Format    Format   `yaml:"format"`     // "" means cloudevents
	Send      []string `yaml:"send"`       // alerts, prescale, reports; empty means the first two, but for slack only alerts

	SecretFile string `yaml:"secret_file"` // keys that sign, one a line; read at each attempt, so that they can rotate
}

// Format is how a webhook's body is written.
type Format string

// The formats: a signed CloudEvent in structured mode, or a message for Slack and compatible chats.
const (
	CloudEvents Format = "cloudevents"
	Slack       Format = "slack"
)

// The kinds of notices for webhooks.
const (
	sendAlerts   = "alerts"
	sendPrescale = "prescale"
	sendReports  = "reports"
)

// Webhook posts events and alerts to one URL, signed by the Standard Webhooks specification
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md): headers webhook-id,
// webhook-timestamp and webhook-signature. An alert is sent when it is raised and when it is resolved, not at each
// tick. The id of a message stays the same over retries and restarts.
type Webhook struct {
	cfg  WebhookConfig
	now  func() time.Time
	page func(r *alerting.Report, format string) ([]byte, error) // see Deps
}

// NewWebhook checks c. Errors start with the key below the webhook's.
func NewWebhook(c WebhookConfig) (*Webhook, error) {
	c.Format = cmp.Or(c.Format, CloudEvents)
	if len(c.Send) == 0 {
		c.Send = []string{sendAlerts, sendPrescale}
		if c.Format == Slack {
			c.Send = c.Send[:1]
		}
	}
	switch {
	case c.Name == "" || strings.ContainsFunc(c.Name, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == '"' }):
		return nil, fmt.Errorf("name: %q is no name; write letters, digits and dashes", c.Name)
	case c.Format != CloudEvents && c.Format != Slack:
		return nil, fmt.Errorf("format: %q is unknown; set cloudevents or slack", c.Format)
	case c.Format == CloudEvents && c.SecretFile == "":
		return nil, errors.New("secret_file: not set, so that the consumer could not tell who sends; name a file with whsec_ and 32 random bytes in base64")
	}
	if (c.URL == "") == (c.URLFile == "") {
		return nil, errors.New("url: set it or url_file, one of the two")
	}
	for i, what := range c.Send {
		if what != sendAlerts && what != sendPrescale && what != sendReports {
			return nil, fmt.Errorf("send[%d]: %q is unknown; set alerts, prescale or reports", i, what)
		}
	}
	if c.URLFile == "" {
		if _, err := c.target(); err != nil {
			return nil, err
		}
	}
	return &Webhook{cfg: c, now: time.Now}, nil
}

// target is the current URL, from the configuration or the file. It refuses invalid ones, and http to another machine
// unless that is allowed. Its errors do not show the URL.
func (c *WebhookConfig) target() (raw string, err error) {
	raw, key := c.URL, "url"
	if c.URLFile != "" {
		if raw, err = tlsconfig.ReadSecret("url_file", c.URLFile); err != nil {
			return "", err
		}
		key = "url_file " + c.URLFile
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s: not an https URL; write it like https://hooks.example.org/forewarm", key)
	case u.User != nil:
		return "", fmt.Errorf("%s: it carries a password; leave that out", key)
	case u.Scheme == "http" && !c.AllowHTTP && !httpguard.IsLoopback(u.Hostname()):
		return "", fmt.Errorf("%s: http to another machine can be read on the way; use https, or set allow_http: true", key)
	}
	return raw, nil
}

// Name is "webhook/" and the configured name.
func (s *Webhook) Name() string { return "webhook/" + s.cfg.Name }

// Accepts is true for the configured kinds, but not for the watchdog. Chats get no decision that holds the replicas.
func (s *Webhook) Accepts(n alerting.Notice) bool {
	switch {
	case n.Report != nil:
		return slices.Contains(s.cfg.Send, sendReports)
	case n.Alert != nil:
		return !isWatchdog(n) && slices.Contains(s.cfg.Send, sendAlerts)
	case n.Decision != nil:
		return slices.Contains(s.cfg.Send, sendPrescale) && (s.cfg.Format != Slack || n.Decision.Action != alerting.Hold)
	}
	return false
}

// ID is the event's id: an alert has one for its start and one for its end. For a chat, renewed advice has the same id
// until it requests something else.
func (s *Webhook) ID(n alerting.Notice) string {
	switch {
	case n.Alert != nil:
		return n.Alert.EventID()
	case n.Decision != nil && s.cfg.Format == Slack:
		d := n.Decision
		return fmt.Sprintf("%s %s %d since %d", d.Pool, d.Action, d.Desired, d.AskedAt.Unix())
	}
	return n.ID()
}

// Send posts n once.
func (s *Webhook) Send(ctx context.Context, n alerting.Notice) error {
	target, err := s.cfg.target()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name(), err)
	}
	body, contentType, err := s.body(n)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {contentType}}
	if err := s.sign(header, messageID(s.ID(n)), body); err != nil {
		return fmt.Errorf("%s: %w", s.Name(), err)
	}
	return post(ctx, client, target, header, body, s.Name())
}

func (s *Webhook) body(n alerting.Notice) (body []byte, contentType string, err error) {
	if s.cfg.Format == Slack {
		body, err = slackMessage(n)
		return body, "application/json; charset=utf-8", err
	}
	var full []byte
	if n.Report != nil {
		if full, err = s.page(n.Report, "json"); err != nil {
			return nil, "", err
		}
		if len(full) > maxEmbedded {
			full = nil
		}
	}
	e, err := n.CloudEvent(full)
	if err == nil {
		body, err = json.Marshal(e)
	}
	return body, alerting.StructuredType + "; charset=utf-8", err
}

// sign sets the headers of the specification; without keys, such as for chats, only the id and the time.
func (s *Webhook) sign(h http.Header, id string, body []byte) error {
	at := s.now()
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	if s.cfg.SecretFile == "" {
		return nil
	}
	keys, err := os.ReadFile(s.cfg.SecretFile)
	if err != nil {
		return fmt.Errorf("secret_file: %w", err)
	}
	signatures, err := sign(string(keys), id, at, body)
	if err != nil {
		return fmt.Errorf("secret_file %s: %w", s.cfg.SecretFile, err)
	}
	h.Set("webhook-signature", signatures)
	return nil
}

// messageID is an event's id for a header. It has no full stop, which separates the signed parts.
func messageID(id string) string { return strings.ReplaceAll(headerValue(id), ".", "%2E") }

const minKeyLen = 38 // characters: whsec_ and 24 bytes in base64

// sign is the webhook-signature header of the Standard Webhooks specification: one signature (v1, HMAC-SHA256) per key.
// text has one key per line; empty lines and lines that begin with # are ignored. id has no full stop. Errors never
// show a key.
func sign(text, id string, at time.Time, body []byte) (string, error) {
	var out []string
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := standardwebhooks.NewWebhook(line)
		if err != nil || len(line) < minKeyLen || !strings.HasPrefix(line, "whsec_") {
			return "", fmt.Errorf("line %d: a key is whsec_ and 24 or more random bytes in base64", number)
		}
		signature, err := key.Sign(id, at, body)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", number, err)
		}
		out = append(out, signature)
	}
	if len(out) == 0 {
		return "", errors.New("no key; write one a line, such as whsec_ and 32 random bytes in base64")
	}
	return strings.Join(out, " "), nil
}
