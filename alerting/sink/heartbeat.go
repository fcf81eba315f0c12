package sink

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/forewarm/forewarm/alerting"
)

// HeartbeatConfig is the heartbeat block.
type HeartbeatConfig struct {
	Target `yaml:",inline"`
}

// Heartbeat calls a URL (GET) each minute while the daemon works, for a service that raises an alarm if the calls stop.
// It is a watchdog that does not need Alertmanager.
type Heartbeat struct {
	cfg HeartbeatConfig
}

// NewHeartbeat checks c. Errors start with the key below heartbeat.
func NewHeartbeat(c HeartbeatConfig) (*Heartbeat, error) {
	return &Heartbeat{c}, c.check()
}

// Name is "heartbeat".
func (*Heartbeat) Name() string { return "heartbeat" }

// Accepts is true for the watchdog.
func (*Heartbeat) Accepts(n alerting.Notice) bool { return isWatchdog(n) }

// Send calls the URL once.
func (s *Heartbeat) Send(ctx context.Context, _ alerting.Notice) error {
	target, err := s.cfg.read()
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return alerting.Permanent{Err: errors.New("heartbeat: its URL cannot be used")}
	}
	req.Header.Set("User-Agent", "forewarm")
	return post(client, req, "heartbeat")
}

func isWatchdog(n alerting.Notice) bool { return n.Alert != nil && n.Alert.Name == alerting.Watchdog }
