package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/httpclient"
)

// AlertmanagerConfig is the alertmanager block.
type AlertmanagerConfig struct {
	URLs         []string          `yaml:"urls"`          // of every peer of the cluster, without /api/v2/alerts
	Labels       map[string]string `yaml:"labels"`        // added to every alert, such as cluster; alerts' own labels win
	GeneratorURL string            `yaml:"generator_url"` // of Forewarm's page, as a reader of the alert reaches it; the link leads to the decision

	Watchdog bool `yaml:"watchdog"` // send ForewarmWatchdog, which always fires, for a dead man's switch

	httpclient.Config `yaml:",inline"`
}

// Alertmanager posts alerts to one peer of an Alertmanager cluster (API v2, POST /api/v2/alerts). Each peer is a sink of
// its own: peers tell each other of notifications, not of alerts, so each has to hear of all, and one that hangs must not
// keep the others waiting. Alerts are sent again at each tick while they fire and end by themselves soon after the last
// one (endsAt), so that a Forewarm that died leaves no alert behind.
type Alertmanager struct {
	cfg    AlertmanagerConfig
	name   string
	url    string
	client *http.Client
	now    func() time.Time
}

// NewAlertmanagers is one sink for each of c.URLs. Errors start with the key below alertmanager.
func NewAlertmanagers(c AlertmanagerConfig) ([]*Alertmanager, error) {
	transport, err := c.Transport("alertmanager")
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport, CheckRedirect: httpclient.Stay}
	var peers []*Alertmanager
	for i, raw := range c.URLs {
		if err := c.Check(raw); err != nil {
			return nil, fmt.Errorf("urls[%d]: %w", i, err)
		}
		u, err := url.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("urls[%d]: %w", i, err)
		}
		name := "alertmanager/" + u.Host + strings.TrimSuffix(u.Path, "/")
		if slices.ContainsFunc(peers, func(p *Alertmanager) bool { return p.name == name }) {
			return nil, fmt.Errorf("urls[%d]: %q is there twice; name each peer once", i, raw)
		}
		peers = append(peers, &Alertmanager{cfg: c, name: name, url: u.JoinPath("api/v2/alerts").String(), client: client, now: time.Now})
	}
	return peers, nil
}

// Name is "alertmanager/" and the peer's address.
func (s *Alertmanager) Name() string { return s.name }

// Accepts is true for alerts, and for the watchdog where it is wanted.
func (s *Alertmanager) Accepts(n alerting.Notice) bool {
	return n.Alert != nil && (s.cfg.Watchdog || !isWatchdog(n))
}

// postable is one alert of the API.
type postable struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// Send posts the alert of n.
func (s *Alertmanager) Send(ctx context.Context, n alerting.Notice) error {
	return s.SendAll(ctx, []alerting.Notice{n})
}

// SendAll posts the alerts of notices together, as the API wants those of one tick.
func (s *Alertmanager) SendAll(ctx context.Context, notices []alerting.Notice) error {
	alerts := []postable{}
	for _, n := range notices {
		if n.Alert != nil {
			alerts = append(alerts, s.render(n.Alert))
		}
	}
	if len(alerts) == 0 {
		return nil
	}
	return s.post(ctx, alerts)
}

// Probe posts no alert, which asks for all that posting one would need.
func (s *Alertmanager) Probe(ctx context.Context) (string, error) {
	if err := s.post(ctx, []postable{}); err != nil {
		return "", fmt.Errorf("%w; check sinks.alertmanager.urls and the credentials", err)
	}
	return "it takes alerts", nil
}

func (s *Alertmanager) post(ctx context.Context, alerts []postable) error {
	body, err := json.Marshal(alerts)
	if err != nil {
		return alerting.Permanent{Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return alerting.Permanent{Err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	err = post(s.client, req, s.name)
	if gone, ok := errors.AsType[alerting.Gone](err); ok {
		return alerting.Permanent(gone) // of a proxy: Alertmanager itself never asks to be left alone
	}
	return err
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
	if id := a.Annotations["decision"]; id != "" && s.cfg.GeneratorURL != "" {
		p.GeneratorURL = strings.TrimSuffix(s.cfg.GeneratorURL, "/") + "/explain/" + url.PathEscape(id)
	}
	if a.Resolved {
		p.EndsAt = now
	}
	if p.StartsAt.After(now) {
		p.StartsAt = now
	}
	return p
}
