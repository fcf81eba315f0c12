package sink

import (
	"context"
	"fmt"
	"slices"

	"github.com/forewarm/forewarm/alerting"
)

// Config is the sinks block of the configuration; a sink without a block is off, but NATS is always on.
type Config struct {
	Alertmanager AlertmanagerConfig `yaml:"alertmanager"`
	Webhooks     []WebhookConfig    `yaml:"webhooks"`
}

// Deps is what the sinks need from the process.
type Deps struct {
	NATS   Publisher // nil leaves the NATS sink out
	Prefix string    // of the subjects of events and alerts
	// Page renders a report as md, json or html.
	Page func(ctx context.Context, r *alerting.Report, format string) ([]byte, error)
}

// Open builds the configured sinks. It starts and connects nothing. Errors name the key, its value and the fix.
func Open(c Config, deps Deps) ([]alerting.Sink, error) {
	var sinks []alerting.Sink
	if deps.NATS != nil {
		sinks = append(sinks, NewNATS(deps.NATS, deps.Prefix))
	}
	peers, err := NewAlertmanagers(c.Alertmanager)
	if err != nil {
		return nil, fmt.Errorf("sinks.alertmanager.%w", err)
	}
	for _, peer := range peers {
		sinks = append(sinks, peer)
	}
	for i, hook := range c.Webhooks {
		s, err := NewWebhook(hook)
		if err == nil && slices.ContainsFunc(sinks, func(other alerting.Sink) bool { return other.Name() == s.Name() }) {
			err = fmt.Errorf("name: %q is taken; name each webhook as no other", hook.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("sinks.webhooks[%d].%w", i, err)
		}
		s.page = deps.Page
		sinks = append(sinks, s)
	}
	return sinks, nil
}
