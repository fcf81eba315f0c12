package alerting

import (
	"strings"
	"testing"
	"time"
)

func TestConfigCheck(t *testing.T) {
	if err := DefaultConfig().Check(); err != nil {
		t.Errorf("the default configuration is refused: %v", err)
	}
	for _, tt := range []struct {
		want   string
		change func(*Config)
	}{
		{`mode: "on" is unknown; set advisory or active`, func(c *Config) { c.Mode = "on" }},
		{"quantile: 95 is out of 0…0.999", func(c *Config) { c.Quantile = 95 }},
		{"alert_probability: 0 ", func(c *Config) { c.AlertProbability = 0 }},
		{"hold: -1m0s is out of 0s…1h0m0s", func(c *Config) { c.Hold = -time.Minute }},
		{"cooldown: 2h0m0s", func(c *Config) { c.Cooldown = 2 * time.Hour }},
		{"expiry: 1m0s is out of 3m0s…24h0m0s", func(c *Config) { c.Expiry = time.Minute }},
		{"scale_in_step: -1", func(c *Config) { c.ScaleInStep = -1 }},
		{"priorities: 65 classes", func(c *Config) { c.Priorities = make([]string, 65) }},
		{"waiting_per_replica: 0", func(c *Config) { c.WaitingPerReplica = 0 }},
	} {
		c := DefaultConfig()
		tt.change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got  %v\nwant %s…", err, tt.want)
		}
	}
}
