package sink

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// AlertmanagerConfig is the alertmanager block.
type AlertmanagerConfig struct {
	URLs         []string          `yaml:"urls"`          // of every peer of the cluster, without /api/v2/alerts
	Timeout      time.Duration     `yaml:"timeout"`       // of one request; 0 means 10s
	Labels       map[string]string `yaml:"labels"`        // added to every alert, such as cluster; alerts' own labels win
	GeneratorURL string            `yaml:"generator_url"` // where a reader of the alert finds Forewarm

	Username        string `yaml:"username"`          // basic authentication
	PasswordFile    string `yaml:"password_file"`     // read at each request, so that it can rotate
	BearerTokenFile string `yaml:"bearer_token_file"` // likewise
}

// Alertmanager posts alerts to every peer of an Alertmanager cluster (API v2, POST /api/v2/alerts). Alerts are sent
// again at each tick while they fire and end by themselves soon after the last one (endsAt), so that a Forewarm that
// died leaves no alert behind.
type Alertmanager struct {
	cfg    AlertmanagerConfig
	peers  []string
	client *http.Client
	now    func() time.Time
}

// NewAlertmanager checks c. Errors start with the key below alertmanager.
func NewAlertmanager(c AlertmanagerConfig) (*Alertmanager, error) {
	s := &Alertmanager{cfg: c, client: &http.Client{Timeout: cmp.Or(c.Timeout, 10*time.Second)}, now: time.Now}
	for i, raw := range c.URLs {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("urls[%d]: %q is no http or https URL; write it like http://alertmanager:9093", i, raw)
		}
		s.peers = append(s.peers, u.JoinPath("api/v2/alerts").String())
	}
	switch {
	case c.Timeout < 0:
		return nil, fmt.Errorf("timeout: %s is below 0; set 10s", c.Timeout)
	case c.Username != "" && c.BearerTokenFile != "":
		return nil, errors.New("username: set beside bearer_token_file; keep one of them")
	case (c.Username == "") != (c.PasswordFile == ""):
		return nil, errors.New("password_file: username and password_file go together; set both or neither")
	}
	return s, nil
}

// Name is "alertmanager".
func (*Alertmanager) Name() string { return "alertmanager" }

// Accepts is true for alerts.
func (*Alertmanager) Accepts(n alerting.Notice) bool { return n.Alert != nil }

// postable is one alert of the API.
type postable struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// Send posts the alert of n to all peers at once, and succeeds when one of them took it: peers tell each other of
// notifications, not of alerts, and the next tick sends it to all again. It is [alerting.Permanent] when all peers
// refuse it for what it is (4xx but 408, 425 and 429).
func (s *Alertmanager) Send(ctx context.Context, n alerting.Notice) error {
	if n.Alert == nil {
		return nil
	}
	body, err := json.Marshal([]postable{s.render(n.Alert)})
	if err != nil {
		return alerting.Permanent{Err: err}
	}
	results := make(chan error, len(s.peers))
	for _, peer := range s.peers {
		go func() { results <- s.post(ctx, peer, body) }()
	}
	var failed []error
	taken, permanent := false, true
	for range s.peers {
		err := <-results
		if err == nil {
			taken = true
			continue
		}
		if refusal, ok := errors.AsType[alerting.Permanent](err); ok {
			err = refusal.Err // permanent only if all are
		} else {
			permanent = false
		}
		failed = append(failed, err)
	}
	switch err := errors.Join(failed...); {
	case taken:
		return nil
	case permanent:
		return alerting.Permanent{Err: err}
	default:
		return err
	}
}

// render turns event time into wall-clock time: Alertmanager knows no other, and a replayed alert would have ended
// before it began. An alert that fires lives on from now for as long as its tick gave it.
func (s *Alertmanager) render(a *alerting.Alert) postable {
	labels := maps.Clone(s.cfg.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, a.Labels)
	labels["alertname"] = string(a.Name)
	now := s.now().UTC()
	p := postable{
		Labels: labels, Annotations: a.Annotations, StartsAt: a.StartsAt.UTC(),
		EndsAt: now.Add(a.EndsAt.Sub(a.UpdatedAt)), GeneratorURL: s.cfg.GeneratorURL,
	}
	if a.Resolved {
		p.EndsAt = now
	}
	if p.StartsAt.After(now) {
		p.StartsAt = now
	}
	return p
}

// maxReply is how much of a refusal is read for its error.
const maxReply = 512

func (s *Alertmanager) post(ctx context.Context, peer string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, peer, bytes.NewReader(body))
	if err != nil {
		return alerting.Permanent{Err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	if err := s.authorize(req); err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err // names method and URL
	}
	defer resp.Body.Close()
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err = fmt.Errorf("post to %s: %s: %s", req.URL.Redacted(), resp.Status, strings.TrimSpace(string(reply)))
	switch code := resp.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code/100 != 4:
		return err
	}
	return alerting.Permanent{Err: err}
}

func (s *Alertmanager) authorize(req *http.Request) error {
	path := cmp.Or(s.cfg.BearerTokenFile, s.cfg.PasswordFile)
	if path == "" {
		return nil
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the secret for alertmanager: %w", err)
	}
	text := strings.TrimSpace(string(secret))
	if s.cfg.BearerTokenFile != "" {
		req.Header.Set("Authorization", "Bearer "+text)
	} else {
		req.SetBasicAuth(s.cfg.Username, text)
	}
	return nil
}
