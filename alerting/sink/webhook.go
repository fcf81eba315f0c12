package sink

import (
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
)

// WebhookConfig is one of webhooks.
type WebhookConfig struct {
	Name      string   `yaml:"name"`       // in logs, metrics and errors, because the URL may be a secret
	URL       string   `yaml:"url"`        // https, or http to this machine
	AllowHTTP bool     `yaml:"allow_http"` // to other machines, although it is not encrypted
	Send      []string `yaml:"send"`       // alerts, prescale, reports; empty means the first two

	SecretFile string `yaml:"secret_file"` // keys that sign, one a line; read at each attempt, so that they can rotate
}

// maxEmbedded bounds the report in an event, in bytes; the event leaves out a larger one.
const maxEmbedded = 1 << 20

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
	page func(ctx context.Context, r *alerting.Report, format string) ([]byte, error) // see Deps
}

// NewWebhook checks c. Errors start with the key below the webhook's.
func NewWebhook(c WebhookConfig) (*Webhook, error) {
	if len(c.Send) == 0 {
		c.Send = []string{sendAlerts, sendPrescale}
	}
	switch {
	case c.Name == "" || strings.ContainsFunc(c.Name, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == '"' }):
		return nil, fmt.Errorf("name: %q is no name; write letters, digits and dashes", c.Name)
	case c.SecretFile == "":
		return nil, errors.New("secret_file: not set, so that the consumer could not tell who sends; " +
			"name a file with whsec_ and 32 random bytes in base64")
	}
	for i, what := range c.Send {
		if what != sendAlerts && what != sendPrescale && what != sendReports {
			return nil, fmt.Errorf("send[%d]: %q is unknown; set alerts, prescale or reports", i, what)
		}
	}
	if err := c.checkURL(); err != nil {
		return nil, err
	}
	return &Webhook{cfg: c}, nil
}

// checkURL refuses http to another machine unless that is allowed. Its errors do not show the URL.
func (c *WebhookConfig) checkURL() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url: not an https URL; write it like https://hooks.example.org/forewarm")
	case u.User != nil:
		return errors.New("url: it carries a user or password; leave that out")
	case u.Scheme == "http" && !c.AllowHTTP && !httpguard.IsLoopback(u.Hostname()):
		return errors.New("url: http to another machine can be read on the way; use https, or set allow_http: true")
	}
	return nil
}

// Name is "webhook/" and the configured name.
func (s *Webhook) Name() string { return "webhook/" + s.cfg.Name }

// Accepts is true for the configured kinds, but not for the watchdog.
func (s *Webhook) Accepts(n alerting.Notice) bool {
	switch {
	case n.Report != nil:
		return slices.Contains(s.cfg.Send, sendReports)
	case n.Alert != nil:
		return !isWatchdog(n) && slices.Contains(s.cfg.Send, sendAlerts)
	case n.Decision != nil:
		return slices.Contains(s.cfg.Send, sendPrescale)
	}
	return false
}

// ID is the event's id: an alert has one for its start and one for its end.
func (s *Webhook) ID(n alerting.Notice) string {
	if n.Alert != nil {
		return n.Alert.EventID()
	}
	return n.ID()
}

// Send posts n once.
func (s *Webhook) Send(ctx context.Context, n alerting.Notice) error {
	body, err := s.body(ctx, n)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {alerting.StructuredType + "; charset=utf-8"}}
	id, at := strings.ReplaceAll(headerValue(s.ID(n)), ".", "%2E"), time.Now() // a full stop separates the signed parts
	keys, err := os.ReadFile(s.cfg.SecretFile)
	if err != nil {
		return fmt.Errorf("%s: secret_file: %w", s.Name(), err)
	}
	signatures, err := sign(string(keys), id, at, body)
	if err != nil {
		return fmt.Errorf("%s: secret_file %s: %w", s.Name(), s.cfg.SecretFile, err)
	}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	header.Set("webhook-signature", signatures)
	return post(ctx, client, s.cfg.URL, header, body, s.Name())
}

func (s *Webhook) body(ctx context.Context, n alerting.Notice) (body []byte, err error) {
	var full []byte
	if n.Report != nil {
		if full, err = s.page(ctx, n.Report, "json"); err != nil {
			return nil, err
		}
		if len(full) > maxEmbedded {
			full = nil
		}
	}
	e, err := n.CloudEvent(full)
	if err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

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
