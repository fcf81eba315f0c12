package sink

import (
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
	GeneratorURL string            `yaml:"generator_url"` // of Forewarm's page, for the alert's link to the decision

	Watchdog bool `yaml:"watchdog"` // send ForewarmWatchdog, which always fires, for a dead man's switch

	httpclient.Config `yaml:",inline"`
}

// Alertmanager posts alerts to one peer of an Alertmanager cluster (API v2, POST /api/v2/alerts). Peers do not share
// alerts, so each is a sink of its own that gets all. Firing alerts are sent at each tick, and end soon after the last
// one (endsAt): a dead Forewarm leaves no alert.
type Alertmanager struct {
	cfg    AlertmanagerConfig
	name   string
	url    string
	client *http.Client
	now    func() time.Time
}

// NewAlertmanagers is one sink for each of c.URLs. Errors start with the key below alertmanager.
func NewAlertmanagers(c AlertmanagerConfig) ([]*Alertmanager, error) {
	transport, err := c.API("alertmanager")
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport, CheckRedirect: httpclient.NoRedirect}
	var peers []*Alertmanager
	for i, raw := range c.URLs {
		if err := c.Check(raw); err != nil {
			return nil, fmt.Errorf("urls[%d]: %w", i, err)
		}
		u, _ := url.Parse(raw) // Check has parsed it
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

// Accepts is true for alerts, and for the watchdog if configured.
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
	return s.post(ctx, []postable{s.render(n.Alert)})
}

// Probe posts an empty list, which needs the same access as an alert.
func (s *Alertmanager) Probe(ctx context.Context) error {
	if err := s.post(ctx, []postable{}); err != nil {
		return fmt.Errorf("%w; check sinks.alertmanager.urls and the credentials", err)
	}
	return nil
}

func (s *Alertmanager) post(ctx context.Context, alerts []postable) error {
	body, err := json.Marshal(alerts)
	if err != nil {
		return alerting.Permanent(err)
	}
	err = post(ctx, s.client, s.url, http.Header{"Content-Type": {"application/json"}}, body, s.name)
	if answer, _ := errors.AsType[alerting.SendError](err); answer.Gone {
		return alerting.Permanent(err) // from a proxy: Alertmanager itself never answers 410
	}
	return err
}

// render is a as Alertmanager reads it. Alertmanager compares with the wall clock, so event times of a replay would have
// ended already. The end is therefore now plus the time from the tick to the end.
func (s *Alertmanager) render(a *alerting.Alert) postable {
	labels := map[string]string{}
	maps.Copy(labels, s.cfg.Labels)
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
