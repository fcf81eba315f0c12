package dynamo

import (
	"bytes"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// plannerConfig has the sections of PlannerConfig that deploy/dynamo/planner.yaml sets, with every field that the
// planner accepts in them. It refuses others (ai-dynamo/dynamo, docs/components/planner/planner-config-reference.mdx).
type plannerConfig struct {
	PluginRegistration struct {
		Auth struct {
			TrustedSources []string          `yaml:"trusted_sources"`
			StaticSecrets  map[string]string `yaml:"static_secrets"`
		}
		Transport struct {
			AllowInsecureGRPC     bool    `yaml:"allow_insecure_grpc"`
			RequestTimeoutSeconds float64 `yaml:"request_timeout_seconds"`
			KeepaliveTimeMS       int     `yaml:"keepalive_time_ms"`
			MaxMessageSizeBytes   int     `yaml:"max_message_size_bytes"`
		}
		ProtocolVersionMin       string  `yaml:"protocol_version_min"`
		ProtocolVersionMax       string  `yaml:"protocol_version_max"`
		HeartbeatTimeoutSeconds  float64 `yaml:"heartbeat_timeout_seconds"`
		HeartbeatMissedThreshold int     `yaml:"heartbeat_missed_threshold"`
	} `yaml:"plugin_registration"`
	Scheduling struct {
		ExternalPlugins []struct {
			PluginID                 string `yaml:"plugin_id"`
			PluginType               string `yaml:"plugin_type"`
			Priority                 int
			Endpoint                 string
			AuthToken                string `yaml:"auth_token"`
			ProtocolVersion          string `yaml:"protocol_version"`
			Version                  string
			ExecutionIntervalSeconds float64 `yaml:"execution_interval_seconds"`
			HoldPolicy               string  `yaml:"hold_policy"`
			Needs                    []string
			RequiresProducedFields   []string `yaml:"requires_produced_fields"`
			ObservationWindowSeconds float64  `yaml:"observation_window_seconds"`
		} `yaml:"external_plugins"`
	}
}

// TestPlannerManifest checks deploy/dynamo/planner.yaml against the planner's published configuration, and against the
// names of our plug-ins.
func TestPlannerManifest(t *testing.T) {
	text, err := os.ReadFile("../../deploy/dynamo/planner.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c plannerConfig
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&c); err != nil {
		t.Fatal(err)
	}
	if len(c.Scheduling.ExternalPlugins) == 0 {
		t.Fatal("no plug-in")
	}
	registration := &c.PluginRegistration
	for _, p := range c.Scheduling.ExternalPlugins {
		if p.PluginID != "forewarm-chat-propose" || p.PluginType != "propose" {
			t.Errorf("Forewarm has no plug-in %q of type %q", p.PluginID, p.PluginType)
		}
		address, plain := strings.CutPrefix(p.Endpoint, "grpc://")
		if _, _, err := net.SplitHostPort(address); err != nil || !plain || !registration.Transport.AllowInsecureGRPC {
			t.Errorf("endpoint %q, allow_insecure_grpc %t: %v", p.Endpoint, registration.Transport.AllowInsecureGRPC, err)
		}
		if !slices.Equal(registration.Auth.TrustedSources, []string{"static_secret"}) || registration.Auth.StaticSecrets[p.AuthToken] == "" {
			t.Errorf("the token of %s is not trusted", p.PluginID)
		}
		if !slices.Contains([]string{"ACCEPT_WHEN_IDLE", "HOLD_LAST"}, p.HoldPolicy) || p.ProtocolVersion != "1.0" || p.Priority <= 0 {
			t.Errorf("hold_policy %q, protocol_version %q, priority %d", p.HoldPolicy, p.ProtocolVersion, p.Priority)
		}
	}
}
